package records

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// filled returns a value with something in each of its fields.
func filled(t *testing.T, v reflect.Value, n *int) {
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(-int64(*n), int64(*n)).UTC()))
		return
	case time.Duration:
		v.SetInt(1<<62 + int64(*n)) // also where an int has 32 bits
		return
	case []byte:
		v.SetBytes([]byte{0, byte(*n), 0})
		return
	case []string:
		v.Set(reflect.ValueOf([]string{"a", "", string(rune('a' + *n))}))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			filled(t, v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(t, v.Elem(), n)
	case reflect.String:
		v.SetString("\xff" + string(rune('a'+*n)))
	case reflect.Uint32:
		v.SetUint(1<<32 - uint64(*n))
	case reflect.Int:
		v.SetInt(-int64(*n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("a field of type %v", v.Type())
	}
}

// Every field is written and read again.
func TestBinary(t *testing.T) {
	full, n := Saga{}, 0
	filled(t, reflect.ValueOf(&full).Elem(), &n)
	for name, s := range map[string]Saga{"full": full, "empty": {}, "an empty claim": {Claim: &Claim{}}} {
		raw, err := s.AppendBinary([]byte("before"))
		require.NoError(t, err, name)
		var found Saga
		require.NoError(t, found.UnmarshalBinary(raw[len("before"):]), name)
		assert.Equal(t, s, found, name)
	}
}

// What a newer program adds is ignored.
func TestBinaryOfNewerProgram(t *testing.T) {
	raw, err := (&Saga{Token: "t", Claim: &Claim{Nonce: []byte("n")}}).AppendBinary(nil)
	require.NoError(t, err)
	raw = appendField(raw, 1000, "new")
	raw = appendField(raw, claimField+2, "new")
	var found Saga
	require.NoError(t, found.UnmarshalBinary(raw))
	assert.Equal(t, Saga{Token: "t", Claim: &Claim{Nonce: []byte("n")}}, found)
}

// Whatever is there instead of a record is refused or read, but read within its bounds.
func TestBinaryOfAnything(t *testing.T) {
	full, n := Saga{}, 0
	filled(t, reflect.ValueOf(&full).Elem(), &n)
	raw, err := full.AppendBinary(nil)
	require.NoError(t, err)
	refused := 0
	for i := range raw {
		if new(Saga).UnmarshalBinary(raw[:i]) != nil {
			refused++
		}
		other := append([]byte(nil), raw...)
		other[i] = byte(rand.Uint32())
		_ = new(Saga).UnmarshalBinary(other)
	}
	assert.Greater(t, refused, len(raw)/2)
	for name, wrong := range map[string][]byte{
		"a number too large": appendField(nil, 6, []byte{0xff, 0xff, 0xff, 0xff, 0x7f}),
		"more than a number": appendField(nil, 6, []byte{1, 1}),
		"half a time":        appendField(nil, 5, []byte{1}),
		"more than a time":   appendField(nil, 5, []byte{1, 1, 1}),
		"within the claim":   appendField(nil, claimField, []byte{1}),
		"no length":          {1},
		"too long":           {1, 2, 'a'},
		"an endless number":  {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		assert.Error(t, new(Saga).UnmarshalBinary(wrong), name)
	}
}
