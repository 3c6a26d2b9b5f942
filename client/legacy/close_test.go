package legacy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
)

// A session is not closed before its server has heard of the requests that were given up.
func TestSessionsAreClosedAfterCancellations(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"the server is slow": http.StatusAccepted, "the cancellation is lost": http.StatusBadGateway} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				heard := make(chan string, 10)
				url, through := memoryhttp.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Mcp-Session-Id", "s")
					var m struct {
						Method string
						ID     json.RawMessage
					}
					_ = json.NewDecoder(r.Body).Decode(&m)
					switch {
					case r.Method == http.MethodGet:
						w.WriteHeader(http.StatusMethodNotAllowed)
					case r.Method == http.MethodDelete:
						heard <- "the end"
					case m.Method == "initialize":
						w.Header().Set("Content-Type", "application/json")
						_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":""}}}`, m.ID)
					case m.Method == "tools/call":
						<-r.Context().Done()
					case m.Method == "notifications/cancelled":
						time.Sleep(3 * time.Second)
						heard <- m.Method
						w.WriteHeader(status)
					default:
						w.WriteHeader(http.StatusAccepted)
					}
				}))
				s, err := legacy.Open(t.Context(), client.SessionConfig{Transport: &client.HTTP{URL: url, RoundTripper: through}})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				_, err = s.Request(ctx, "tools/call", json.RawMessage(`{"name":"x","arguments":{}}`))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, time.Second, time.Since(began), "the caller does not wait")
				require.NoError(t, s.Close())
				assert.Equal(t, "notifications/cancelled", <-heard)
				assert.Equal(t, "the end", <-heard)
				assert.Equal(t, 4*time.Second, time.Since(began), "and no longer")
			})
		})
	}
}
