package interop

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	linkText  = regexp.MustCompile(regexp.QuoteMeta(pagesOfAll) + `(/[A-Za-z0-9_-]{22})\b`)
	pageInput = regexp.MustCompile(`<input type="hidden" name="(question|token)" value="([^"]+)">`)
)

// TestPagesWhileServersDie kills each server as soon as it has answered, and has another one serve the next request: a page
// is the same at any of three replicas, and what was answered on it is there when the client calls again.
func TestPagesWhileServersDie(t *testing.T) {
	onlyIfWanted(t, "starts servers again and again")
	t.Parallel()
	for dies := -1; dies < 6; dies++ {
		t.Run(fmt.Sprint(dies), func(t *testing.T) {
			t.Parallel()
			c, turn := newCluster(t, filepath.Join(t.TempDir(), "ledger.db")), 0
			// send sends a request to the next replica.
			send := func(method, path, body string, header map[string]string) string {
				p := c.all[turn%len(c.all)]
				req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.addr+path, strings.NewReader(body))
				require.NoError(t, err)
				for name, value := range header {
					req.Header.Set(name, value)
				}
				client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				resp, err := client.Do(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				raw, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Less(t, resp.StatusCode, 400, "%s", raw)
				if dies < 0 || dies == turn {
					require.NoError(t, p.restart())
				}
				turn++
				return string(raw)
			}
			call := func(arguments map[string]any) string {
				raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": turn + 1, "method": "tools/call", "params": map[string]any{
					"name": multiRound.Name, "arguments": arguments,
					"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{}},
				}})
				require.NoError(t, err)
				return send(http.MethodPost, "/mcp", string(raw), map[string]string{
					"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
					"Mcp-Method": "tools/call", "Mcp-Name": multiRound.Name,
				})
			}
			answer := func(page, path, value string) {
				form := url.Values{"do": {"accept"}, "f0": {value}}
				for _, m := range pageInput.FindAllStringSubmatch(page, 2) {
					form.Set(m[1], html.UnescapeString(m[2]))
				}
				send(http.MethodPost, path, form.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"})
			}
			// look looks until the page says that: what a server dies at is taken up by another when its lease is over. A look
			// takes seconds while the tool works.
			look := func(path, want string) (page string) {
				for end := time.Now().Add(time.Minute); time.Now().Before(end); {
					if page = send(http.MethodGet, path, "", nil); strings.Contains(page, want) {
						return page
					}
					require.Contains(t, page, "Look again")
				}
				require.Fail(t, "the page never says that", "%s: %s", want, page)
				return ""
			}
			first := call(map[string]any{})
			link, handle := linkText.FindStringSubmatch(first), handleText.FindStringSubmatch(first)
			require.NotNil(t, link, first)
			path := "/ask" + link[1]
			answer(look(path, "What is your name?"), path, "Jo")
			answer(look(path, "favorite color"), path, "blue")
			look(path, "The tool has completed.")
			assert.Contains(t, call(map[string]any{"resumeToken": handle[1]}), "Jo likes blue.")
		})
	}
}
