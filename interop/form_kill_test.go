package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// windowed is what a form in a host's window is shown.
type windowed struct {
	Status, ResumeToken string
	Questions           []struct{ ID, Message string }
}

// TestFormWhileServersDie plays the form in a host's window, and kills each server as soon as it has answered: the next
// request is served by another. The last case kills the server that holds the client's call, while the form is answered
// at another one.
func TestFormWhileServersDie(t *testing.T) {
	t.Parallel()
	const steps = 7
	cases := []int{1, 3, steps} // after the question was fetched, and after the first answer
	if longtests.Wanted() {
		cases = []int{-1, 0, 1, 2, 3, 4, 5, 6, steps}
	}
	for _, dies := range cases {
		t.Run(fmt.Sprint(dies), func(t *testing.T) {
			t.Parallel()
			c, turn := newCluster(t, filepath.Join(t.TempDir(), "ledger.db")), 0
			at := func(p *process, tool string, arguments map[string]any) (string, error) {
				raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": turn + 1, "method": "tools/call", "params": map[string]any{
					"name": tool, "arguments": arguments,
					"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{
						"extensions": map[string]any{"io.modelcontextprotocol/ui": map[string]any{"mimeTypes": []string{"text/html;profile=mcp-app"}}},
					}},
				}})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url(), strings.NewReader(string(raw)))
				require.NoError(t, err)
				for name, value := range map[string]string{
					"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
					"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
				} {
					req.Header.Set(name, value)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					return "", err
				}
				defer resp.Body.Close()
				said, err := io.ReadAll(resp.Body)
				return string(said), err
			}
			call := func(tool string, arguments map[string]any) string {
				p := c.all[turn%len(c.all)]
				said, err := at(p, tool, arguments)
				require.NoError(t, err)
				if dies < 0 || dies == turn {
					require.NoError(t, p.restart())
				}
				turn++
				return said
			}
			form := func(arguments map[string]any) (w windowed) {
				said := call("mcpsaga_form", arguments)
				_, message, _ := strings.Cut(said, "data: {")
				if message == "" {
					message = strings.TrimPrefix(said, "{")
				}
				var response struct {
					Result struct{ StructuredContent windowed }
				}
				require.NoError(t, json.Unmarshal([]byte("{"+strings.TrimSpace(message)), &response), "%s", said)
				return response.Result.StructuredContent
			}
			handle := handleText.FindStringSubmatch(call(multiRound.Name, map[string]any{}))
			require.NotNil(t, handle)
			// shows looks until the form shows that: what a server dies at is taken up by another when its lease is over.
			shows := func(w windowed, question, status string) {
				for end := time.Now().Add(time.Minute); time.Now().Before(end); w = form(map[string]any{"resumeToken": handle[1]}) {
					if w.Status == status && (question == "" || len(w.Questions) == 1 && strings.Contains(w.Questions[0].Message, question)) {
						return
					}
				}
				require.Fail(t, "the form never shows that", "%s %s: %+v", question, status, w)
			}
			answer := func(id, field, value string) map[string]any {
				return map[string]any{"resumeToken": handle[1], "answers": map[string]any{id: map[string]any{"action": "accept", "content": map[string]any{field: value}}}}
			}
			shows(form(map[string]any{"resumeToken": handle[1]}), "What is your name?", "input_required")
			form(answer("step1", "name", "Jo"))
			form(answer("step1", "name", "Jo")) // as an app does that has lost the response
			shows(form(map[string]any{"resumeToken": handle[1]}), "favorite color", "input_required")
			if dies == steps {
				holder, held := c.all[turn%len(c.all)], make(chan string, 1)
				go func() {
					said, _ := at(holder, multiRound.Name, map[string]any{"resumeToken": handle[1]})
					held <- said
				}()
				turn++
				shows(form(map[string]any{"resumeToken": handle[1]}), "favorite color", "input_required")
				require.NoError(t, holder.restart())
				assert.NotContains(t, <-held, "Jo likes")
			}
			form(answer("step2", "color", "blue"))
			shows(form(map[string]any{"resumeToken": handle[1]}), "", "completed")
			assert.Contains(t, call(multiRound.Name, map[string]any{"resumeToken": handle[1]}), "Jo likes blue.")
		})
	}
}
