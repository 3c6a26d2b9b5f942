package server_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Large messages that are being read take memory, so one caller's are bounded: what is beyond is to come again, and small ones do
// not notice.
func TestLargeMessagesAreShed(t *testing.T) {
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{rememberingTool()}})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	hs := &http.Server{Handler: s.Handler()}
	go func() { _ = hs.Serve(l) }()
	t.Cleanup(func() { _ = hs.Close(); s.Close() })
	body := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"remember","x":"` + strings.Repeat("x", n) + `"}}`
	}
	post := func(body io.Reader) *http.Response {
		resp, err := http.Post("http://"+l.Addr().String()+"/mcp", "application/json", body)
		require.NoError(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	var slow []*io.PipeWriter // they have said what they send, and send no more
	for range 20 {
		r, w := io.Pipe()
		slow = append(slow, w)
		go func() {
			resp, err := http.Post("http://"+l.Addr().String()+"/mcp", "application/json", r)
			if err == nil {
				resp.Body.Close()
			}
		}()
		_, err := io.WriteString(w, body(100_000))
		require.NoError(t, err)
	}
	var resp *http.Response
	require.Eventually(t, func() bool { resp = post(strings.NewReader(body(900_000))); return resp.StatusCode != http.StatusOK }, 10*time.Second, time.Millisecond)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Contains(t, string(said), `"retryable":true`)
	assert.Equal(t, http.StatusOK, post(strings.NewReader(body(60_000))).StatusCode)
	for _, w := range slow {
		require.NoError(t, w.Close())
	}
	assert.Eventually(t, func() bool { return post(strings.NewReader(body(900_000))).StatusCode == http.StatusOK }, 10*time.Second, time.Millisecond)
}
