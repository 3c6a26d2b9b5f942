package interop

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProxiesLeadToAllThatServersServe: a host that cannot read where to sign in, a user whose page is not there and a sender of
// events have no way round the proxy; and what is for operators stays behind it.
func TestProxiesLeadToAllThatServersServe(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		program, file string
		shared        bool // pages and events need a ledger
	}{
		{"nginx", "nginx.conf", false}, {"nginx", "nginx-any.conf", true}, {"haproxy", "haproxy.cfg", false}, {"haproxy", "haproxy-any.cfg", true},
		{"caddy", "Caddyfile", false}, {"caddy", "Caddyfile-any", true},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			program := needProgram(t, test.program)
			var replicas []string
			for range 3 {
				web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
				t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
				replicas = append(replicas, web.Listener.Addr().String())
			}
			p := proxies[test.program]
			p.file = test.file
			way := &http.Client{Transport: from(t, "127.0.0.1", p.startBefore(t, program, replicas, nil))}
			status := func(path string) int {
				response, err := way.Get("http://" + publicHost + path)
				if err != nil {
					return 0
				}
				_ = response.Body.Close()
				return response.StatusCode
			}
			require.Eventually(t, func() bool { return status("/mcp") == http.StatusAccepted }, 20*time.Second, 50*time.Millisecond)
			for path, served := range map[string]bool{
				"/.well-known/oauth-protected-resource": true, "/.well-known/oauth-protected-resource/mcp": true, "/ask/waiting": test.shared, "/events/abc": test.shared,
				"/": false, "/readyz": false, "/healthz": false, "/metrics": false, "/mcp/x": false, "/.well-known/other": false,
			} {
				want := http.StatusNotFound
				if served {
					want = http.StatusAccepted
				}
				assert.Equal(t, want, status(path), path)
			}
		})
	}
}
