package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

const refusal = `{"jsonrpc":"2.0","id":"client-req-2","error":{"code":-32602,"message":"the saga token is not valid here, or no longer: unless its saga has ended and acted, start again with tools/callSaga"}}`

// Whatever is wrong with a token, the client reads the same; the log says why.
func TestRefusedTokensLookAllTheSame(t *testing.T) {
	now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	keys := newKeys(t)
	who := func(r *http.Request) (saga.Caller, error) {
		return saga.Caller{Issuer: "https://issuer.example", Subject: r.Header.Get("X-User")}, nil
	}
	options := server.Options{Keys: keys, Audience: "here", Now: now.Now, Authenticate: who}
	home := newRig(t, options)
	token := home.firstToken()
	require.Contains(t, home.resume(token), "step-sampling-B")

	refused := func(t *testing.T, r *rig, token, reason string) {
		t.Helper()
		require.Equal(t, refusal, r.resume(token))
		log := r.log.take()
		require.Contains(t, log, `"msg":"token refused"`)
		require.Contains(t, log, `"reason":"`+reason+`"`)
		if len(token) > 20 {
			require.NotContains(t, log, token)
		}
	}
	elsewhere := func(change func(*server.Options)) *rig {
		o := options
		change(&o)
		return newRig(t, o)
	}

	t.Run("every character changed", func(t *testing.T) {
		for i := range token {
			for _, c := range []byte{'A', 'z', '_', '=', '+', '\n', 0xC3} {
				if token[i] == c {
					continue
				}
				changed := token[:i] + string(c) + token[i+1:]
				require.Equal(t, refusal, home.resume(changed), "character %d became %q", i, c)
				require.Contains(t, home.log.take(), `"msg":"token refused"`)
			}
		}
	})
	t.Run("every truncation", func(t *testing.T) {
		for i := range token {
			require.Equal(t, refusal, home.resume(token[:i]), "the first %d characters", i)
			require.Contains(t, home.log.take(), `"msg":"token refused"`)
		}
	})
	t.Run("other spellings", func(t *testing.T) {
		for _, other := range []string{
			token + "=", token + "==", token + "A", "A" + token, " " + token, token + " ", token + "\n", "\r\n" + token,
			token[:10] + "\n" + token[10:], token[:10] + "\r\n" + token[10:],
			strings.NewReplacer("-", "+", "_", "/").Replace(token) + "=", strings.ToUpper(token), token + token,
		} {
			require.Equal(t, refusal, home.resume(other), "%q", other)
			home.log.take()
		}
	})
	t.Run("too long", func(t *testing.T) { refused(t, home, strings.Repeat("A", 200_000), "too_long") })
	t.Run("foreign keyset", func(t *testing.T) {
		refused(t, elsewhere(func(o *server.Options) { o.Keys = newKeys(t) }), token, "unknown_key")
	})
	t.Run("foreign audience", func(t *testing.T) {
		refused(t, elsewhere(func(o *server.Options) { o.Audience = "there" }), token, "authentication")
	})
	t.Run("foreign principal", func(t *testing.T) {
		refused(t, elsewhere(func(o *server.Options) {
			o.Authenticate = func(*http.Request) (saga.Caller, error) {
				return saga.Caller{Issuer: "https://issuer.example", Subject: "mallory"}, nil
			}
		}), token, "authentication")
	})
	t.Run("nobody", func(t *testing.T) {
		refused(t, elsewhere(func(o *server.Options) { o.Authenticate = nil }), token, "authentication")
	})
	t.Run("another server's tool", func(t *testing.T) {
		other := complextool.Tool
		other.Name = "another_tool"
		refused(t, elsewhere(func(o *server.Options) { o.Tools = []saga.Definition{other} }), token, "tool")
	})
	t.Run("another revision", func(t *testing.T) {
		other := complextool.Tool
		other.Revision = 7
		refused(t, elsewhere(func(o *server.Options) { o.Tools = []saga.Definition{other} }), token, "revision")
	})
	t.Run("code that no longer knows the position", func(t *testing.T) {
		other := complextool.Tool
		other.Asks = other.Asks[1:]
		refused(t, elsewhere(func(o *server.Options) { o.Tools = []saga.Definition{other} }), token, "state")
	})
	t.Run("expired", func(t *testing.T) {
		start := now.Now()
		defer now.set(start)
		now.set(start.Add(10*time.Minute + 59*time.Second))
		require.Contains(t, home.resume(token), "step-sampling-B", "the skew of clocks is granted")
		now.set(start.Add(11*time.Minute + 2*time.Second))
		refused(t, home, token, "expired")
	})
	t.Run("from the future, and another server's", func(t *testing.T) {
		start := now.Now()
		defer now.set(start)
		now.set(start.Add(-2 * time.Minute))
		refused(t, elsewhere(func(o *server.Options) { o.Audience = "there" }), token, "authentication")
		other := complextool.Tool
		other.Name = "another_tool"
		refused(t, elsewhere(func(o *server.Options) { o.Tools = []saga.Definition{other} }), token, "tool")
	})
	t.Run("after the saga's deadline", func(t *testing.T) {
		short := complextool.Tool
		short.MaxAge = time.Minute
		r := elsewhere(func(o *server.Options) { o.Tools = []saga.Definition{short} })
		first := r.firstToken()
		start := now.Now()
		defer now.set(start)
		now.set(start.Add(time.Minute))
		second := parse(t, r.resume(first)).Result.SagaToken
		require.NotEmpty(t, second)
		now.set(start.Add(5 * time.Minute)) // when the second by itself would be good
		refused(t, r, first, "deadline")
		refused(t, r, second, "deadline")
	})
}

func TestReadyTellsOfStaleKeys(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := &clock{now: start}
	r := newRig(t, server.Options{Now: now.Now})
	ready := func() string {
		status, body := r.do(http.MethodGet, "/readyz", "", nil)
		assert.Equal(t, http.StatusOK, status, "it can serve")
		return body
	}
	assert.NotContains(t, ready(), "keysStaleSince")
	r.srv.KeysFailed()
	now.set(start.Add(time.Hour))
	r.srv.KeysFailed()
	assert.Contains(t, ready(), `"keysStaleSince":"2026-11-21T12:00:00Z"`)
	r.srv.SetKeys(newKeys(t))
	assert.NotContains(t, ready(), "keysStaleSince")
	r.srv.KeysFailed()
	assert.Contains(t, ready(), `"keysStaleSince":"2026-11-21T13:00:00Z"`)
}

func TestKeysRotateWithoutRestart(t *testing.T) {
	old := newKeys(t)
	r := newRig(t, server.Options{Keys: old})
	token := r.firstToken()
	both, id, err := old.Add(codec.XAES256GCM)
	require.NoError(t, err)
	r.srv.SetKeys(both)
	promoted, err := both.Promote(id)
	require.NoError(t, err)
	r.srv.SetKeys(promoted)
	assert.Contains(t, r.resume(token), "step-sampling-B", "the old key still opens")
	status, ready := r.do(http.MethodGet, "/readyz", "", nil)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, ready, `"primary":true`)

	disabled, err := promoted.Disable(old.Keys()[0].ID)
	require.NoError(t, err)
	fresh := r.firstToken()
	r.srv.SetKeys(disabled)
	assert.Equal(t, refusal, r.resume(token))
	assert.Contains(t, r.resume(fresh), "step-sampling-B")
}

// Without its key a token undoes nothing, in time or too late: whoever disables a stolen
// key ends what can be undone with it.
func TestTokensOfDisabledKeysUndoNothing(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, later := range map[string]time.Duration{"in time": 0, "too late": time.Hour} {
		t.Run(name, func(t *testing.T) {
			held := map[saga.Key]bool{}
			keys, now := newKeys(t), &clock{now: noon}
			r := newRig(t, server.Options{Keys: keys, Now: now.Now, Tools: []saga.Definition{roomTool(1, held)}})
			token := parse(t, r.post(callRoom)).Result.SagaToken
			old := keys.Primary().ID
			next, id, err := keys.Add(codec.XAES256GCM)
			require.NoError(t, err)
			next, err = next.Promote(id)
			require.NoError(t, err)
			disabled, err := next.Disable(old)
			require.NoError(t, err)
			r.srv.SetKeys(disabled)
			now.set(noon.Add(later))
			for _, method := range []string{"resumeSaga", "cancelSaga"} {
				assert.JSONEq(t, strings.Replace(refusal, `"client-req-2"`, "2", 1), r.post(roomMessage(method, token, sure)))
				assert.Len(t, held, 1)
				assert.Contains(t, r.log.take(), `"reason":"unknown_key"`)
			}
			r.srv.SetKeys(next)
			assert.Equal(t, []string{"room"}, undone(t, r.post(roomMessage("cancelSaga", token, ""))), "with it, it does")
		})
	}
}
