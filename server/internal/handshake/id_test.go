package handshake

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a session's id says is what was agreed on, at every replica.
func TestIDsSayWhatWasAgreed(t *testing.T) {
	keys := newKeyset(t)
	d, other := replica(t, keys), replica(t, keys)
	for version, agreed := range map[string]revision.Revision{
		"2024-11-05": revision.November2024, "2025-03-26": revision.March2025, "2025-06-18": revision.June2025, "2025-11-25": revision.November2025,
	} {
		for capabilities, all := range map[string]bool{`{}`: false, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{}}`: true} {
			a := begin(t, d, "ann", version, capabilities)
			b, late, rerr := other.readID(t.Context(), a.name, other.Log)
			require.Nil(t, rerr)
			assert.False(t, late)
			assert.Equal(t, a, b)
			assert.Equal(t, agreed, revision.Revision(b.Revision))
			want := steps.Features{}
			if all {
				want = agreed.Has()
			}
			assert.Equal(t, want, b.Features)
			assert.Equal(t, slog.LevelInfo, b.Level)
			assert.True(t, b.of("ann"))
			assert.False(t, b.of(""))
		}
	}
	one, two := begin(t, d, "ann", "2025-11-25", `{}`), begin(t, d, "ann", "2025-11-25", `{}`)
	assert.NotEqual(t, one.id, two.id)
}

// An id of the future is no id of nobody: a clock is wrong, and it opens later.
func TestIDsOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newKeyset(t)
		ahead, behind := replica(t, keys), replica(t, keys)
		ahead.Turns.Now = func() time.Time { return time.Now().Add(10 * time.Minute) }
		p, _, rerr := ahead.agree(&dialect.Exchange{Message: &wire.Message{Params: []byte(`{"protocolVersion":"2025-11-25"}`)}})
		require.Nil(t, rerr)
		name, err := ahead.newID(p, "")
		require.NoError(t, err)
		_, _, rerr = behind.readID(t.Context(), name, behind.Log)
		require.NotNil(t, rerr)
		assert.Equal(t, int64(wire.CodeTryAgain), int64(rerr.Code))
		time.Sleep(10 * time.Minute)
		_, _, rerr = behind.readID(t.Context(), name, behind.Log)
		assert.Nil(t, rerr)
	})
}

// What another program has sealed as a session's id is refused, not misread.
func TestIDsOfOtherPrograms(t *testing.T) {
	d := replica(t, newKeyset(t))
	good := []byte{1, byte(revision.November2025), 1, 0}
	whose := strings.Repeat("x", 32)
	for name, test := range map[string]struct {
		state []byte
		whose string
		ok    bool
	}{
		"as it is":                 {good, whose, true},
		"another format":           {[]byte{2, 3, 1, 0}, whose, false},
		"a revision of the future": {[]byte{1, 4, 1, 0}, whose, false},
		"too short":                {good[:3], whose, false},
		"too long":                 {append(good[:4:4], 0), whose, false},
		"nobody's":                 {good, "", false},
	} {
		sealed, err := d.Turns.Codec.Seal(tokens.Binding{Purpose: sessionid.Purpose}, time.Now(), &tokens.Contents{State: test.state, Claims: tokens.Claims{Request: []byte(test.whose)}})
		require.NoError(t, err)
		_, _, rerr := d.readID(t.Context(), sealed, d.Log)
		assert.Equal(t, test.ok, rerr == nil, name)
	}
}

// frozenID was sealed by an earlier build. As long as it has not expired, it opens.
const frozenID = "1ASwOdMrZL-AAnlOrZL0HoC3H4QhfW0P0ETnILjJqCNoMv6J8aOZ1dZEI_html0y6l6iSO369Y9QaInMlfl7qb2aCJxd8M3OU_sQma3UIQlmShrEWJuiEbSHWf0u2EdeQdEEOTXAgrELt17ayNA"

func TestFrozenID(t *testing.T) {
	raw, err := os.ReadFile("../../../internal/tokens/testdata/frozen/keyset/keyset.json")
	require.NoError(t, err)
	keys, err := codec.ParseKeyset(raw)
	require.NoError(t, err)
	d := replica(t, keys)
	d.Turns.Now = func() time.Time { return time.Unix(1_790_000_000, 0) }
	a, late, rerr := d.readID(t.Context(), frozenID, d.Log)
	require.Nil(t, rerr)
	assert.False(t, late)
	assert.True(t, a.of("ann"))
	assert.Equal(t, revision.June2025, revision.Revision(a.Revision))
	assert.Equal(t, steps.Features{Forms: true, Roots: true}, a.Features)
	d.Turns.Now = func() time.Time { return time.Unix(1_790_000_000, 0).Add(time.Hour + time.Minute) }
	_, late, _ = d.readID(t.Context(), frozenID, d.Log)
	assert.True(t, late)
}

// What a process remembers of sessions that were ended is bounded, and goes with their time.
func TestEndingsAreBounded(t *testing.T) {
	e := make(endings)
	now := time.Now()
	id := func(i int) tokens.ID { return tokens.ID{byte(i), byte(i >> 8), byte(i >> 16)} }
	for i := range maxEndings + 5 {
		e.add(id(i), now.Add(time.Duration(i+1)*time.Second), now)
	}
	assert.Len(t, e, maxEndings)
	assert.NotContains(t, e, id(4))
	assert.Contains(t, e, id(5))
	e.add(id(maxEndings+5), now.Add(time.Hour), now.Add(10*time.Second))
	assert.NotContains(t, e, id(9))
	assert.Contains(t, e, id(10))
	e.add(id(0), now.Add(48*time.Hour), now.Add(24*time.Hour))
	assert.Len(t, e, 1)
}

// Only what has something to remember stays in memory, and gives way to what is in use.
func TestTheTableKeepsLittle(t *testing.T) {
	d := replica(t, newKeyset(t), func(l *dialect.Limits) { l.MaxSessions = 2 })
	d.Hub = new(dialect.Hub)
	enter := func() *session {
		t.Helper()
		s, rerr := d.use(begin(t, d, "", "2025-11-25", `{}`), "", needs{memory: true}, false)
		require.Nil(t, rerr)
		return s
	}
	s := enter()
	assert.Len(t, d.sessions.byID, 1)
	d.release(s, nil)
	assert.Empty(t, d.sessions.byID, "nothing is left of it")
	assert.Error(t, s.ctx.Err())

	older, newer := enter(), enter()
	older.linger()
	newer.linger()
	d.release(older, nil)
	d.release(newer, nil)
	assert.Equal(t, 2, d.sessions.idle.Len())
	busy := enter()
	assert.Error(t, older.ctx.Err(), "the one unused for the longest gives way")
	assert.NoError(t, newer.ctx.Err())
	again, _ := d.use(newer.agreed, "", needs{}, false)
	require.Same(t, newer, again)
	assert.Zero(t, d.sessions.idle.Len())
	_, rerr := d.use(begin(t, d, "", "2025-11-25", `{}`), "", needs{memory: true}, false)
	require.NotNil(t, rerr)
	assert.Equal(t, 503, rerr.Status)
	d.release(busy, nil)
	d.release(newer, nil)
	assert.Len(t, d.sessions.byID, 1)
}

// What a process knows of sessions that were ended is known of those not in memory too, and is
// forgotten with their time when others are ended.
func TestEndingsAreKnownWhileTheyMatter(t *testing.T) {
	d := replica(t, newKeyset(t))
	now := d.Turns.Now()
	older, newer := begin(t, d, "", "2025-11-25", `{}`), begin(t, d, "", "2025-11-25", `{}`)
	d.sessions.end(older, now)
	ended := func(a *agreed) bool {
		s, rerr := d.use(a, "", needs{}, false)
		if rerr != nil {
			assert.Equal(t, 404, rerr.Status)
			return true
		}
		require.Nil(t, s.idle)
		return false
	}
	assert.True(t, ended(older))
	assert.False(t, ended(newer))
	_, rerr := d.use(older, "", needs{memory: true}, false)
	require.NotNil(t, rerr)
	assert.Equal(t, 404, rerr.Status)
	newer.expires = older.expires.Add(time.Hour)
	d.sessions.end(newer, older.expires)
	assert.True(t, ended(newer))
	assert.False(t, ended(older), "it has expired by itself")
}
