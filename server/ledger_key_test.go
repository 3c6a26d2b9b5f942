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
