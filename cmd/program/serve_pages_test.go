package program

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
)

// With a ledger the server has pages where its users reach it: those of this machine, or wherever the operator says.
func TestServePages(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	gittest.New(t, repo)
	for _, c := range []struct {
		name string
		args []string
		url  string // its beginning; empty if there is no page
	}{
		{"this machine", nil, "http://127.0.0.1:"},
		{"a name that users know", []string{"--allow-host", "tools.example.com", "--public-url", "https://tools.example.com/"}, "https://tools.example.com/ask/"},
		{"a proxy that nobody spoke of", []string{"--allow-host", "tools.example.com"}, ""},
		{"no ledger", []string{"--ledger", "off"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address, _ := newHome(t).serve(append(c.args, "--repo", repo)...)
			request, err := http.NewRequest(http.MethodPost, address, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+
				`"name":"release_notes","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
			require.NoError(t, err)
			for name, value := range map[string]string{
				"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
				"Mcp-Method": "tools/call", "Mcp-Name": "release_notes",
			} {
				request.Header.Set(name, value)
			}
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Contains(t, string(body), "resumeToken")
			event, err := http.Post(strings.TrimSuffix(address, "/mcp")+"/events/"+strings.Repeat("A", 32), "application/json", strings.NewReader("{}"))
			require.NoError(t, err)
			said, err := io.ReadAll(event.Body)
			require.NoError(t, err)
			require.NoError(t, event.Body.Close())
			assert.Equal(t, !slices.Contains(c.args, "off"), strings.Contains(string(said), "there is no such event"), "%s", said)
			found := regexp.MustCompile(`https?://[^ "\\]+/ask/[\w-]+`).FindString(string(body))
			if c.url == "" {
				assert.Empty(t, found)
				return
			}
			assert.True(t, strings.HasPrefix(found, c.url), "%s", body)
			page, err := http.Get(strings.TrimSuffix(address, "/mcp") + found[strings.Index(found, "/ask/"):])
			require.NoError(t, err)
			require.NoError(t, page.Body.Close())
			assert.Equal(t, http.StatusOK, page.StatusCode)
		})
	}
	for _, args := range [][]string{{"--public-url", "http://tools.example.com"}, {"--public-url", "tools"}, {"--public-url", "https://tools.example.com", "--ledger", "off"}} {
		_, stderr, code := newHome(t).run(append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
		assert.Equal(t, exitUsage, code, stderr)
		assert.Contains(t, stderr, "--public-url")
		assert.NotContains(t, stderr, "Options")
	}
}
