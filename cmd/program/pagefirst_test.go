package program

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Who is to open a page first is shown which, in any protocol, without what would change the terminal.
func TestPagesToOpenFirst(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, m.ID)
		case "tools/call":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"sign in","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://example.com/in?a=\u001b[2Jb\nc","message":"For \u001b[1myour mail"}]}}}`, m.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(web.Close)
	h := newHome(t)
	for _, protocol := range []string{"2025-11-25", "2026-07-28"} {
		_, stderr, code := h.run("call", "x", "--server", web.URL, "--protocol", protocol, "--timeout", "20s")
		assert.Equal(t, exitServer, code)
		assert.Contains(t, stderr, "sign in (code -32042)")
		assert.Contains(t, stderr, "to open, if you trust it, and then to try again:\n  https://example.com/in?a=")
		assert.Contains(t, stderr, "    For your mail\n")
		assert.NotContains(t, stderr, "\x1b")
		assert.NotContains(t, stderr, "\nc")
	}
}
