package legacy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
)

// A server that answers with more than the client takes is cut off.
func TestHugeAnswers(t *testing.T) {
	t.Parallel()
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"`+strings.Repeat("x", 1<<20)+`","version":""}}}`)
	}))
	defer huge.Close()
	for limit, want := range map[int64]bool{1 << 16: true, 1 << 22: false} {
		s, err := legacy.Open(t.Context(), client.SessionConfig{Transport: &client.HTTP{URL: huge.URL, MaxResponse: limit}, Notify: nil})
		assert.Equal(t, want, err != nil)
		if s != nil {
			_ = s.Close()
		}
	}
}

// A tool that has run has a result, also if a string of it is no Unicode and a name comes twice.
func TestResultsOfOddJSON(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"application/json", "text/event-stream"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			_ = json.NewDecoder(r.Body).Decode(&m)
			w.Header().Set("Mcp-Session-Id", "s")
			result := ""
			switch m.Method {
			case "initialize":
				result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
			case "tools/call":
				result = `{"content":[{"type":"text","text":"half \ud83d, a byte ` + "\xff" + `"}],"structuredContent":{"a":1,"a":2}}`
			default:
				w.WriteHeader(http.StatusAccepted)
				return
			}
			response := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			if w.Header().Set("Content-Type", kind); kind == "text/event-stream" {
				response = "data: " + response + "\n\n"
			}
			_, _ = io.WriteString(w, response)
		}))
		c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open})
		got, err := c.Call(t.Context(), "x", nil, client.Handlers{})
		require.NoError(t, err, kind)
		assert.Equal(t, "half \ufffd, a byte \ufffd", got.Content.Text())
		assert.NoError(t, c.Close())
		s.Close()
	}
}
