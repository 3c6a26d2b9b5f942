package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// withoutKey takes the idempotency key out of the parameters of a first call.
func withoutKey(t *testing.T, params json.RawMessage) (rest, key string) {
	t.Helper()
	var p map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(params, &p))
	var meta struct {
		Key string `json:"io.github.mcpsaga/idempotencyKey"`
	}
	require.NoError(t, json.Unmarshal(p["_meta"], &meta))
	delete(p, "_meta")
	raw, err := json.Marshal(p)
	require.NoError(t, err)
	return string(raw), meta.Key
}

// takesKeys is a list of tools of a server with a ledger.
const takesKeys = `{"tools":[{"name":"other","inputSchema":{}},{"name":"complex_tool","inputSchema":{},"_meta":{"io.github.mcpsaga/idempotencyKey":true}}]}`

// tryAgain is how a server answers whose ledger does not.
func tryAgain(w http.ResponseWriter, r asked) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"error":{"code":-31503,"message":"later","data":{"retryable":true}}}`))
}

// A first call that may have begun a saga is sent again, with the same key, to a tool that
// knows keys again, and only to such a one.
func TestFirstCallIsRepeatedWithItsKey(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]reply{"cut": cut, "unavailable": body(503, "text/plain", ""), "asked to": tryAgain, "asked to, with status 200": refuse(-31503, "later")} {
		t.Run(name, func(t *testing.T) {
			s := play(t, loss, result(takesKeys), loss, result(askTarget), result(deployed))
			var who people
			_, err := s.client(t).Call(t.Context(), "complex_tool", map[string]any{"a": 1}, who.handlers())
			require.NoError(t, err)
			assert.Equal(t, []string{"tools/callSaga", "tools/list", "tools/callSaga", "tools/callSaga", "tools/resumeSaga"}, s.methods())
			assert.Equal(t, string(s.got()[0].Params), string(s.got()[3].Params))
			assert.Zero(t, s.looks, "the list is looked at once")

			s = play(t, loss, result(takesKeys))
			_, err = s.client(t).Call(t.Context(), "other", nil, client.Handlers{})
			require.Error(t, err)
			assert.Equal(t, []string{"tools/callSaga", "tools/list"}, s.methods())

			s = play(t, loss, refuse(-32601, "no lists here"))
			_, err = s.client(t).Call(t.Context(), "complex_tool", nil, client.Handlers{})
			require.Error(t, err)
			assert.Equal(t, []string{"tools/callSaga", "tools/list"}, s.methods())
		})
	}
	s := play(t, refuse(-32602, "no"))
	_, err := s.client(t).Call(t.Context(), "complex_tool", nil, client.Handlers{})
	require.Error(t, err)
	assert.Zero(t, s.looks, "what was answered is not repeated, so nobody looks")

	s = play(t, body(401, "text/plain", ""))
	_, err = s.client(t).Call(t.Context(), "complex_tool", nil, client.Handlers{})
	require.Error(t, err)
	assert.Zero(t, s.looks, "nor is what another attempt would meet again")

	s = play(t, cut)
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", Retries: -1})
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Call(t.Context(), "complex_tool", nil, client.Handlers{})
	require.Error(t, err)
	assert.Zero(t, s.looks, "who wants no retries has none")
}

// Each call has a key of its own; a call that goes on from before its first answer keeps it.
func TestKeyOfACallIsKept(t *testing.T) {
	t.Parallel()
	s := play(t, cut, result(`{"tools":[]}`), result(askTarget), result(deployed), result(deployed))
	c := s.client(t)
	var who people
	_, err := c.Call(t.Context(), "complex_tool", nil, who.handlers())
	stopped := throughJSON(t, interrupted(t, err))
	handlers := who.handlers()
	var afterwards []client.Position
	handlers.OnPosition = func(_ context.Context, p client.Position) error {
		afterwards = append(afterwards, p)
		return nil
	}
	_, err = c.Resume(t.Context(), stopped, handlers)
	require.NoError(t, err)
	_, err = c.Call(t.Context(), "complex_tool", nil, who.handlers())
	require.NoError(t, err)
	_, lost := withoutKey(t, s.got()[0].Params)
	_, again := withoutKey(t, s.got()[2].Params)
	_, other := withoutKey(t, s.got()[4].Params)
	assert.Equal(t, lost, again)
	assert.NotEqual(t, lost, other)
	require.NotEmpty(t, afterwards)
	assert.Empty(t, afterwards[0].Key, "with a token it is of no use")

	stopped.Key = "" // saved by an earlier version
	s.then(result(deployed))
	_, err = c.Resume(t.Context(), stopped, who.handlers())
	require.NoError(t, err)
	assert.JSONEq(t, `{"name":"complex_tool"}`, string(s.got()[5].Params))
}
