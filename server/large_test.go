package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

// Large bodies that are being read take memory, wherever they are sent to, so one caller's are bounded: what is beyond is to come
// again, and neither small ones nor another caller's notice.
func TestLargeMessagesAreShed(t *testing.T) {
	p, tools := newTill(paid)
	o, r := newOffice(t, newApprove(), func(o *server.Options) {
		o.Tools, o.EventPath, o.CallerKey = append(o.Tools, append(tools, rememberingTool(), consents())...), "/events", byHeader
	})
	handle := func() string { r.begin(callTool("buy", object{})); return "/events/" + <-p.handles }
	mine, other := handle(), handle()
	_, question := o.asks(r)
	r.opensFor("fin1", question)
	path := func(link string) string { return strings.TrimPrefix(link, "http://127.0.0.1") }
	const form, message = "application/x-www-form-urlencoded", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"remember","x":"`
	link := path(r.waitsFor(callTool("consents", object{}), "ann").URL)
	for _, c := range []struct {
		what, tells, path, other, kind, begin, end string // tells callers apart, besides the path
		served                                     int
	}{
		{"messages", "User", "/mcp", "/mcp", "application/json", message, `"}}`, http.StatusOK},
		{"events", "User", mine, other, "application/json", `{"x":"`, `"}`, http.StatusUnprocessableEntity},
		{"links", "X-Caller", link, link, form, "f0=", "", http.StatusForbidden},
		{"people", "User", path(question), path(question), form, "f0=", "", http.StatusForbidden},
	} {
		t.Run(c.what, func(t *testing.T) {
			body := func(n int) string { return c.begin + strings.Repeat("x", n) + c.end }
			send := func(path, as string, body io.Reader) (*http.Response, error) {
				q, err := http.NewRequest(http.MethodPost, r.url+path, body)
				require.NoError(t, err)
				q.Header = http.Header{"Content-Type": {c.kind}, c.tells: {as}}
				return r.client().Do(q)
			}
			post := func(path, as string, n int) *http.Response {
				resp, err := send(path, as, strings.NewReader(body(n)))
				require.NoError(t, err)
				t.Cleanup(func() { resp.Body.Close() })
				return resp
			}
			var slow []*io.PipeWriter // they have said what they send, and send no more
			for range 20 {
				read, w := io.Pipe()
				slow = append(slow, w)
				t.Cleanup(func() { _ = w.Close() })
				go func() {
					if resp, err := send(c.path, "fin1", read); err == nil {
						resp.Body.Close()
					}
				}()
				_, err := io.WriteString(w, body(100_000))
				require.NoError(t, err)
			}
			var resp *http.Response
			require.Eventually(t, func() bool { resp = post(c.path, "fin1", 900_000); return resp.StatusCode != c.served }, 10*time.Second, time.Millisecond)
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			assert.NotEmpty(t, resp.Header.Get("Retry-After"))
			said, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Contains(t, string(said), "too much to do")
			assert.Equal(t, c.served, post(c.path, "fin1", 60_000).StatusCode)
			assert.Less(t, post(c.other, "fin2", 900_000).StatusCode, http.StatusInternalServerError, "another caller's")
			for _, w := range slow {
				require.NoError(t, w.Close())
			}
			assert.Eventually(t, func() bool { return post(c.path, "fin1", 900_000).StatusCode == c.served }, 10*time.Second, time.Millisecond)
		})
	}
}
