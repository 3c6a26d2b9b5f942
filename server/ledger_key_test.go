package server_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Every way in looks at the key of a first call, if the server has a ledger, and at nothing
// else's.
func TestWrongKeysAreRefused(t *testing.T) {
	const wrong = "must be 1 to 255 visible ASCII characters"
	withKey := func(key string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
	}
	first := transcript(t)[0][0]
	o := server.Options{Tools: []saga.Definition{complextool.Tool}, Keys: newKeys(t)}

	without := newRig(t, o)
	status, body := without.do(http.MethodPost, "/mcp", first, withKey("not a key"))
	assert.Equal(t, 200, status)
	assert.NotEmpty(t, parse(t, body).Result.SagaToken, "as ever")

	o.Ledger = newSick()
	r := newRig(t, o)
	status, body = r.do(http.MethodPost, "/mcp", first, withKey("not a key"))
	assert.Equal(t, 400, status)
	assert.Contains(t, body, wrong)
	assert.EqualValues(t, -32602, parse(t, body).Error.Code)
	status, body = r.do(http.MethodPost, "/mcp", first, withKey("a-key"))
	assert.Equal(t, 200, status)
	token := parse(t, body).Result.SagaToken
	require.NotEmpty(t, token)
	second := strings.Replace(transcript(t)[1][0], "TOKEN1", token, 1)
	status, body = r.do(http.MethodPost, "/mcp", second, withKey("not a key"))
	assert.Equal(t, 200, status, "a later turn has a token: %s", body)

	modern := callTool("complex_tool", object{"initial_arg": "x"}).with(allCapabilities)
	modern.meta["io.github.mcpsaga/idempotencyKey"] = ""
	got := r.send(modern)
	assert.Equal(t, 400, got.status)
	require.NotNil(t, got.Error)
	assert.Contains(t, got.Error.Message, wrong)

	legacy := r.connect("2025-11-25", everything)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"complex_tool","arguments":{"initial_arg":"x"},"_meta":{"io.github.mcpsaga/idempotencyKey":"a b"}}}`
	said := readAll(t, legacy.post(call))
	assert.Contains(t, said, wrong)
	assert.Contains(t, said, "-32602")

	batching := r.connect("2025-03-26", everything)
	batching.header.Set("Idempotency-Key", "a-key")
	resp := batching.post(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	assert.Equal(t, 400, resp.StatusCode)
	assert.Contains(t, readAll(t, resp), "this is a batch")

	lines, err := server.New(server.Options{Tools: o.Tools, Keys: o.Keys, Ledger: o.Ledger, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(lines.Close)
	var out strings.Builder
	require.NoError(t, lines.ServeStdio(t.Context(), strings.NewReader(strings.Replace(first, `"params":{`, `"params":{"_meta":{"io.github.mcpsaga/idempotencyKey":7},`, 1)+"\n"), &out))
	assert.Contains(t, out.String(), wrong)

	_, err = r.srv.Handle(t.Context(), &server.Request{Method: "tools/callSaga", Params: []byte(`{"name":"complex_tool","arguments":{"initial_arg":"x"}}`), Header: http.Header{"Idempotency-Key": {"a b"}}})
	require.ErrorContains(t, err, wrong)
}

// All anonymous callers have one namespace of keys: who sends the key that another has chosen,
// for the same call, gets that one's saga. Callers with a name have each their own.
func TestKeysOfAnonymousCallersAreShared(t *testing.T) {
	o := server.Options{Tools: []saga.Definition{new(seats).tool()}, Keys: newKeys(t), Ledger: newSick()}
	token := func(r *rig, name string) string {
		status, body := r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"seat"}}`, func(q *http.Request) {
			q.Header.Set("Idempotency-Key", "chosen")
			q.Header.Set("Who", name)
		})
		require.Equal(t, 200, status, body)
		return parse(t, body).Result.SagaToken
	}
	anonymous := newRig(t, o)
	one := token(anonymous, "")
	require.NotEmpty(t, one)
	assert.Equal(t, one, token(anonymous, ""))
	o.Authenticate = who
	named := newRig(t, o)
	ann, bob := token(named, "ann"), token(named, "bob")
	assert.Equal(t, ann, token(named, "ann"))
	for _, other := range []string{one, bob} {
		assert.NotEqual(t, ann, other)
	}
}
