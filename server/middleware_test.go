package server_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Middleware that counts bytes or notes statuses often wraps the writer in one that can only write.
func TestMiddlewareThatHidesFlush(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	sure := &steps.Form[struct{}]{ID: "sure", Message: "Sure?"}
	ask := saga.Flow[struct{}, string]{Info: saga.Info{Name: "asks", Asks: []steps.Question{sure}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		_, err := saga.Ask(r, sure)
		return "asked", err
	}}
	s, err := server.New(server.Options{
		Keys: newKeys(t), Tools: []saga.Definition{slowTool("reports", true, 10*time.Millisecond), ask},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	inner := s.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	}))
	t.Cleanup(func() { s.Close(); web.Close() })
	r := &rig{t: t, url: web.URL, http: web.Client(), srv: s}
	for range 2 {
		q := callTool("reports", nil)
		q.meta["progressToken"] = "p"
		resp, err := r.client().Do(r.httpRequest(t.Context(), q))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Contains(t, string(body), `"done"`)
	}
	c := r.connect("2025-11-25", `{"elicitation":{}}`)
	resp := c.request(http.MethodGet, "", nil)
	assert.Equal(t, http.StatusNotAcceptable, resp.StatusCode)
	assert.Contains(t, readAll(t, resp), "middleware")
	assert.Contains(t, c.ask(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"reports","_meta":{"progressToken":"p"}}}`), `"done"`)
	assert.Contains(t, c.ask(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"asks"}}`), "cannot be asked")
	web.Close()
	assert.Equal(t, 1, bytes.Count(log.Bytes(), []byte("give it an Unwrap method")), log.String())
}
