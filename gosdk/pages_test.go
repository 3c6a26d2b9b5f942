package gosdk_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
)

var formToken = regexp.MustCompile(`name="token" value="([^"]+)"`)

// What is mounted has pages as well, beside the SDK's handler: for clients of both eras.
func TestMountedPages(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	h := mount(t, gosdk.Options{Ledger: store, Questions: server.Questions{PageURL: "http://127.0.0.1/ask", NoRelay: true}}, talk(1))
	t.Cleanup(h.shutDown)
	mux := http.NewServeMux()
	mux.Handle("/ask/", http.StripPrefix("/ask", h.mounted.Pages()))
	hs := httptest.NewServer(mux)
	t.Cleanup(hs.Close)
	for _, version := range []string{modern, legacy} {
		t.Run(version, func(t *testing.T) {
			c := h.connect(version, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
			first, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
			require.NoError(t, err)
			raw, err := json.Marshal(first.StructuredContent)
			require.NoError(t, err)
			var waits struct{ URL, ResumeToken string }
			require.NoError(t, json.Unmarshal(raw, &waits))
			require.True(t, strings.HasPrefix(waits.URL, "http://127.0.0.1/ask/"), string(raw))
			page := hs.URL + strings.TrimPrefix(waits.URL, "http://127.0.0.1")
			shown, err := http.Get(page)
			require.NoError(t, err)
			body, err := io.ReadAll(shown.Body)
			require.NoError(t, err)
			require.NoError(t, shown.Body.Close())
			token := formToken.FindStringSubmatch(string(body))
			require.NotNil(t, token, string(body))
			answered, err := http.PostForm(page, url.Values{"question": {"word1"}, "token": {token[1]}, "do": {"accept"}, "f0": {"w1"}})
			require.NoError(t, err)
			require.NoError(t, answered.Body.Close())
			assert.Equal(t, http.StatusOK, answered.StatusCode)
			end, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "talk", Arguments: map[string]any{"resumeToken": waits.ResumeToken}})
			require.NoError(t, err)
			assert.False(t, end.IsError)
			assert.Equal(t, "w1", text(t, end))
		})
	}
}
