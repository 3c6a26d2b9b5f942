package program

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The history of a saga says of an answer that came from the form in the host's window.
func TestLedgerShowsWhoAnswered(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	call := func(name, arguments string) (token string) {
		request, err := http.NewRequest(http.MethodPost, h.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+
			`"name":"`+name+`","arguments":`+arguments+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}}}}`))
		require.NoError(t, err)
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
			"Mcp-Method": "tools/call", "Mcp-Name": name,
		} {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		var said struct {
			Result struct {
				StructuredContent struct{ ResumeToken string }
			}
		}
		require.NoError(t, json.NewDecoder(response.Body).Decode(&said))
		require.NotEmpty(t, said.Result.StructuredContent.ResumeToken)
		return said.Result.StructuredContent.ResumeToken
	}
	token := call("trip", "{}")
	call("mcpsaga_form", `{"resumeToken":"`+token+`","answers":{"where":{"action":"accept","content":{"to":"Oslo"}}}}`)
	ids := h.ids()
	require.Len(t, ids, 1)
	for id := range ids {
		assert.Regexp(t, `(?m) answer +by app$`, h.ok("ledger", "show", id))
	}
}
