package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var handleText = regexp.MustCompile(`resumeToken: ([A-Za-z0-9_-]{22})\b`)

// TestRelayWhileServersDie kills each server as soon as it has answered, and has another one take the next call: a client
// that can ask nothing comes to the end all the same, at any of three replicas, in both eras.
func TestRelayWhileServersDie(t *testing.T) {
	onlyIfWanted(t, "starts servers again and again")
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		for dies := -1; dies < 4; dies++ {
			t.Run(fmt.Sprintf("%s %d", version, dies), func(t *testing.T) {
				t.Parallel()
				c, session, turn := newCluster(t, filepath.Join(t.TempDir(), "ledger.db")), "", 0
				post := func(body string) (string, http.Header) {
					p := c.all[turn%len(c.all)]
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url(), bytes.NewReader([]byte(body)))
					require.NoError(t, err)
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Accept", "application/json, text/event-stream")
					req.Header.Set("Mcp-Protocol-Version", version)
					if session != "" {
						req.Header.Set("Mcp-Session-Id", session)
					}
					if version == "2026-07-28" {
						req.Header.Set("Mcp-Method", "tools/call")
						req.Header.Set("Mcp-Name", multiRound.Name)
					}
					resp, err := http.DefaultClient.Do(req)
					require.NoError(t, err)
					defer resp.Body.Close()
					raw, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					return string(raw), resp.Header
				}
				if version != "2026-07-28" {
					_, header := post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
					session = header.Get("Mcp-Session-Id")
					require.NotEmpty(t, session)
				}
				call := func(arguments map[string]any) string {
					params := map[string]any{"name": multiRound.Name, "arguments": arguments}
					if version == "2026-07-28" {
						params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": map[string]any{}}
					}
					raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": turn + 1, "method": "tools/call", "params": params})
					require.NoError(t, err)
					said, _ := post(string(raw))
					if dies < 0 || dies == turn {
						require.NoError(t, c.all[turn%len(c.all)].restart())
					}
					turn++
					return said
				}
				handle := handleText.FindStringSubmatch(call(map[string]any{}))
				require.NotNil(t, handle)
				look := call(map[string]any{"resumeToken": handle[1]})
				assert.Contains(t, look, "What is your name?")
				second := call(map[string]any{"resumeToken": handle[1], "answers": map[string]any{"step1": map[string]any{"name": "Jo"}}})
				assert.Contains(t, second, "favorite color")
				for range 2 { // the end can be read again
					end := call(map[string]any{"resumeToken": handle[1], "answers": map[string]any{"step2": map[string]any{"color": "blue"}}})
					assert.Contains(t, end, "Jo")
					assert.Contains(t, end, "blue")
				}
			})
		}
	}
}
