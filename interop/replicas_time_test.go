package interop

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowUsers answer each question after a while.
func slowUsers(t *testing.T, after time.Duration) string {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(after):
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// confirms is a call that asks once.
func confirms(between string) call {
	return call{
		Tool: "confirm_delete", Arguments: map[string]any{"filename": "a"}, Between: between, Again: true, Timeout: 120_000,
		Elicit: []answer{accept(map[string]any{"confirm": true})},
	}
}

// TestPatientProxies: a stream whose question waits longer than its proxy would wait for the
// server is not cut, as the server shows every 15 seconds that it lives.
func TestPatientProxies(t *testing.T) {
	onlyIfWanted(t, "waits longer than a proxy")
	t.Parallel()
	needProgram(t, "nginx")
	c := newCluster(t, ledgers["SQLite"](t))
	f := c.behind("nginx", t, func(config string) string {
		require.Contains(t, config, "proxy_read_timeout 5m;")
		return strings.Replace(config, "proxy_read_timeout 5m;", "proxy_read_timeout 20s;", 1)
	})
	between := slowUsers(t, 25*time.Second)
	var all sync.WaitGroup // rather than tests in parallel, of which all would wait
	for _, client := range append(sessionClients(), olderClient) {
		all.Go(func() {
			o := client.play(t, target{URL: f.url()}, []call{confirms(between)})[0]
			assert.Empty(t, o.Error, client.name)
			assert.Equal(t, "a would be deleted.", o.text(), client.name)
			assert.Len(t, o.Asked, 1, client.name)
		})
	}
	all.Wait()
	for _, e := range f.entries("") {
		assert.False(t, e.calls && e.mark != "", "a stream was cut:\n%s", f.wire(e.session))
	}
}

// TestClientsTimeLimits: a client that has waited for longer than it wants tells the server, and
// the call ends everywhere. Progress does not help while a question is open: there is none.
func TestClientsTimeLimits(t *testing.T) {
	t.Parallel()
	needProgram(t, "nginx")
	c := newCluster(t, ledgers["SQLite"](t))
	between := slowUsers(t, 3*time.Second)
	for _, client := range append(sessionClients(), olderClient) {
		for _, progress := range []bool{false, true} {
			name := client.name
			if progress {
				name += " with progress"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := c.behind("nginx", t, nil)
				one := confirms(between)
				one.Timeout, one.Progress = 1000, progress
				o := client.play(t, target{URL: f.url()}, []call{one})[0]
				assert.Regexp(t, `Request timed out|deadline exceeded`, o.Error)
				assert.Eventually(t, func() bool {
					return slices.ContainsFunc(f.entries(""), func(e exchange) bool {
						return e.what == "notifications/cancelled" && e.status == http.StatusAccepted
					})
				}, time.Minute, 10*time.Millisecond, "nobody was told")
			})
		}
	}
}
