package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// slowTool answers after a while; if it reports, at once that it has begun.
func slowTool(name string, reports bool, takes time.Duration) saga.Definition {
	return tool(name, func(t *plain) (saga.Next, error) {
		if reports {
			t.Progress(1, 2, "begun")
		}
		select {
		case <-t.Done():
			return nil, t.Err()
		case <-time.After(takes):
		}
		return t.Textf("done")
	})
}

// A client has limited time to accept an event, but the next one may come much later; with HTTP/2 a deadline that stays ends a
// stream, and with HTTP/1.1 the next response.
func TestIdleStreamsStayOpen(t *testing.T) {
	const accept = 500 * time.Millisecond
	for protocol, newer := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{slowTool("reports", true, 2*accept), slowTool("silent", false, 2*accept)}})
			require.NoError(t, err)
			server.SetEventTimeout(s, accept)
			web := httptest.NewUnstartedServer(s.Handler())
			web.EnableHTTP2 = newer
			web.StartTLS()
			t.Cleanup(func() { s.Close(); web.Close() })
			r := &rig{t: t, url: web.URL, http: web.Client(), srv: s}
			l := r.listen(listenFor(1, object{"toolsListChanged": true}))
			l.must("1", acknowledged)
			for _, name := range []string{"reports", "silent"} {
				q := callTool(name, nil)
				q.meta["progressToken"] = "p"
				resp, err := r.client().Do(r.httpRequest(t.Context(), q))
				require.NoError(t, err)
				assert.Equal(t, protocol, resp.Proto)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Contains(t, string(body), `"done"`)
			}
			s.ToolsChanged()
			l.must("1", "notifications/tools/list_changed")
		})
	}
}

// A call's stream shows that it lives, too.
func TestCallsKeepAlive(t *testing.T) {
	t.Parallel()
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{slowTool("reports", true, time.Second)}})
	require.NoError(t, err)
	server.SetKeepAlive(s, 10*time.Millisecond)
	url, _ := serve(t, s)
	r := &rig{t: t, url: url, srv: s}
	q := callTool("reports", nil)
	q.meta["progressToken"] = "p"
	resp, err := r.client().Do(r.httpRequest(t.Context(), q))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Greater(t, strings.Count(string(body), "\n:\n"), 3)
}

// Older clients get no empty event from a server that stops.
func TestStoppingServersSendNoEmptyEvents(t *testing.T) {
	r := newRig(t, server.Options{Tools: statelessTools(), Ledger: inMemory(t)})
	for version, empty := range map[string]bool{"2025-06-18": false, "2025-11-25": true} {
		c := r.connect(version, everything)
		r.srv.CloseStreams()
		resp := c.request("GET", "", func(q *http.Request) { q.Header.Set("Last-Event-ID", "gX_3") })
		body := readAll(t, resp)
		assert.Contains(t, body, "retry: ")
		assert.Equal(t, empty, strings.Contains(body, "data:"), body)
	}
}

// Errors without an id are not answered: a peer that does so, too, would be answered for ever.
func TestErrorsWithoutAnIDAreNotAnswered(t *testing.T) {
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: statelessTools()})
	require.NoError(t, err)
	var out strings.Builder
	lines := `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}
{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}
`
	require.NoError(t, s.ServeStdio(t.Context(), strings.NewReader(lines), &out))
	assert.Empty(t, out.String())
}
