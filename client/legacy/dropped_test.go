package legacy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
)

// A question that the SDK drops does not hold up those that come after it.
func TestQuestionsThatAreDropped(t *testing.T) {
	const q = `{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}}`
	for name, first := range map[string]string{
		"broken off before its end": "id: 1\ndata:\n\nid: 2\ndata: " + q,
		"of another kind":           "id: 1\ndata:\n\nid: 2\nevent: other\ndata: " + q + "\n\n",
		"whole":                     "id: 1\ndata:\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			answered := make(chan bool, 9)
			var call atomic.Value
			running := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					ID     json.RawMessage
					Method string
					Result json.RawMessage
				}
				_ = json.NewDecoder(r.Body).Decode(&m)
				w.Header().Set("Mcp-Session-Id", "s")
				switch {
				case m.Method == "initialize":
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, m.ID)
				case m.Method == "tools/call":
					call.Store(m.ID)
					w.Header().Set("Content-Type", "text/event-stream")
					if name == "whole" {
						_, _ = io.WriteString(w, first)
					} else {
						_, _ = fmt.Fprintf(w, first, 1)
					}
					_ = http.NewResponseController(w).Flush()
					time.Sleep(100 * time.Millisecond)
					panic(http.ErrAbortHandler)
				case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") != "":
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = fmt.Fprintf(w, "id: 3\ndata: "+q+"\n\n", 1)
					_ = http.NewResponseController(w).Flush()
					select {
					case <-answered:
					case <-r.Context().Done():
						return
					}
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", call.Load())
				case r.Method == http.MethodGet:
					w.WriteHeader(http.StatusMethodNotAllowed)
				default:
					if m.Result != nil {
						answered <- true
					}
					w.WriteHeader(http.StatusAccepted)
				}
			}))
			defer running.Close()
			c := client.New(&client.HTTP{URL: running.URL}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open, Timeout: 8 * time.Second})
			defer c.Close()
			asked := 0
			_, err := c.Call(t.Context(), "x", nil, client.Handlers{Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
				asked++
				return client.Accept(map[string]any{}), nil
			}})
			require.NoError(t, err)
			assert.Equal(t, 1, asked)
		})
	}
}
