package interop

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHeldCallsWhileServersDie kills the server that holds a session's call for the form in the host's window. The client
// comes back to another server with Last-Event-ID, and has its response when the user has answered at a third one.
func TestHeldCallsWhileServersDie(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{false, true} { // when the server dies, the first question is
		t.Run(fmt.Sprint(answered), func(t *testing.T) {
			t.Parallel()
			c, session := newCluster(t, filepath.Join(t.TempDir(), "ledger.db")), ""
			send := func(p *process, method, body, last string) *http.Response {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, p.url(), strings.NewReader(body))
				require.NoError(t, err)
				for name, value := range map[string]string{
					"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
					"Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session, "Last-Event-ID": last,
				} {
					if value != "" {
						req.Header.Set(name, value)
					}
				}
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				return resp
			}
			opened := send(c.all[0], http.MethodPost, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}},"clientInfo":{"name":"raw","version":"1"}}}`, "")
			session = opened.Header.Get("Mcp-Session-Id")
			require.NoError(t, opened.Body.Close())
			call := func(id int, tool, arguments string) string {
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, arguments)
			}
			shows := func(arguments, what string) {
				t.Helper()
				for end := time.Now().Add(time.Minute); time.Now().Before(end); arguments = `{"frame":"1"}` {
					resp := send(c.all[1], http.MethodPost, call(9, "mcpsaga_form", arguments), "")
					raw, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					if strings.Contains(string(raw), what) {
						return
					}
				}
				require.Fail(t, "the form never shows that", "%s", what)
			}
			held := send(c.all[0], http.MethodPost, call(4, multiRound.Name, `{}`), "")
			defer held.Body.Close()
			in, last := bufio.NewReader(held.Body), ""
			for last == "" {
				line, err := in.ReadString('\n')
				require.NoError(t, err)
				last = strings.TrimSpace(strings.TrimPrefix(line, "id:"))
				if !strings.HasPrefix(line, "id:") {
					last = ""
				}
			}
			shows(`{"frame":"1"}`, "What is your name?")
			const name, color = `{"frame":"1","answers":{"step1":{"action":"accept","content":{"name":"Jo"}}}}`, `{"frame":"1","answers":{"step2":{"action":"accept","content":{"color":"blue"}}}}`
			if answered {
				shows(name, "favorite color")
			}
			require.NoError(t, c.all[0].restart())
			moved := send(c.all[2], http.MethodGet, "", last)
			defer moved.Body.Close()
			if !answered {
				shows(name, "favorite color")
			}
			shows(color, "completed")
			rest, err := io.ReadAll(moved.Body)
			require.NoError(t, err)
			assert.Contains(t, string(rest), `"id":4,"result"`)
			assert.Contains(t, string(rest), "Jo likes blue.")
		})
	}
}
