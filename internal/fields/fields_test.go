package fields_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/fields"
)

func read(t *testing.T, b []byte) map[uint64]fields.Value {
	t.Helper()
	all := make(map[uint64]fields.Value)
	var err error
	for field, v := range fields.All(b, &err) {
		all[field] = v
	}
	require.NoError(t, err)
	return all
}

func TestFieldsAreReadAsTheyWereWritten(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456789, time.FixedZone("", 3600))
	var b []byte
	b = fields.AppendBytes(b, 1, "text")
	b = fields.AppendUint(b, 2, math.MaxUint64)
	b = fields.AppendBool(b, 3, true)
	b = fields.AppendTime(b, 4, at)
	b = fields.AppendTime(b, 5, time.UnixMicro(-1))
	b = fields.AppendBytes(b, 1<<40, []byte{0})
	all := read(t, b)
	assert.Equal(t, "text", string(all[1]))
	assert.Equal(t, uint64(math.MaxUint64), all[2].Uint())
	assert.True(t, all[3].Bool())
	assert.Equal(t, at.UTC().Truncate(time.Microsecond), all[4].Time())
	assert.Equal(t, int64(-1), all[5].Time().UnixMicro())
	assert.Equal(t, fields.Value{0}, all[1<<40])
}

func TestZeroValuesTakeNoRoom(t *testing.T) {
	var b []byte
	b = fields.AppendBytes(b, 1, "")
	b = fields.AppendUint(b, 2, 0)
	b = fields.AppendBool(b, 3, false)
	b = fields.AppendTime(b, 4, time.Time{})
	assert.Empty(t, b)
	var none fields.Value
	assert.Zero(t, none.Uint())
	assert.False(t, none.Bool())
	assert.True(t, none.Time().IsZero())
}

func FuzzAll(f *testing.F) {
	f.Add(fields.AppendTime(fields.AppendBytes(nil, 7, "abc"), 300, time.Unix(1, 0)))
	f.Add([]byte{1, 200, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var err error
		var again []byte
		for field, v := range fields.All(b, &err) {
			v.Uint()
			v.Time()
			again = fields.AppendBytes(again, field, v)
		}
		if err != nil {
			require.ErrorIs(t, err, fields.ErrTruncated)
		}
		require.LessOrEqual(t, len(again), len(b))
	})
}

func TestWhatIsCutOffIsAnError(t *testing.T) {
	whole := fields.AppendBytes(nil, 7, "abc")
	for n := 1; n < len(whole); n++ {
		var err error
		for range fields.All(whole[:n], &err) {
			assert.Fail(t, "a field was read")
		}
		require.ErrorIs(t, err, fields.ErrTruncated)
	}
}

// listed is a structure with a field of each type.
type listed struct {
	text   string
	bytes  []byte
	id     [16]byte
	small  uint8
	middle uint32
	large  uint64
	holds  bool
	at     time.Time
	lasts  time.Duration
	signed int64
	real   float64
}

func (l *listed) list() fields.List {
	return fields.List{1: &l.text, &l.bytes, &l.id, &l.small, &l.middle, 7: &l.large, 200: &l.holds, &l.at, &l.lasts, &l.signed, &l.real}
}

func TestListsAreReadAsTheyWereWritten(t *testing.T) {
	full := listed{"text", []byte{0, 1}, [16]byte{15: 1}, math.MaxUint8, math.MaxUint32, math.MaxUint64, true, time.UnixMicro(-1).UTC(), -time.Second, -2, -0.5}
	b := full.list().Append(nil, 100)
	require.LessOrEqual(t, len(b)+100, cap(b))
	var found listed
	unknown, err := found.list().Read(fields.AppendBytes(b, 6, "of another"))
	require.NoError(t, err)
	assert.Equal(t, full, found)
	assert.Equal(t, fields.AppendBytes(nil, 6, "of another"), unknown)
	assert.Len(t, new(listed).list().Append(nil, 0), 18, "only the id, which has as many bytes always")
	grown := full.list().Append(make([]byte, 0, cap(b)), 0)
	assert.Equal(t, b, grown)
}

// What Append makes room for is enough: it need not grow in between.
func TestListsGrowOnce(t *testing.T) {
	full := listed{text: string(make([]byte, 1<<15)), bytes: make([]byte, 1<<15), small: math.MaxUint8, middle: math.MaxUint32, large: math.MaxUint64, holds: true, at: time.UnixMicro(math.MinInt64), lasts: -1, signed: -1, real: -1}
	l := full.list()
	assert.LessOrEqual(t, testing.AllocsPerRun(10, func() { l.Append(nil, 0) }), 1.0)
}
