package gosdk_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// Clients of the SDK that can ask nothing see how to go on in the list, and do so; others see the tools as they are.
func TestModelsRelayThroughTheSDK(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(1))
	for _, version := range []string{modern, legacy} {
		t.Run(version, func(t *testing.T) {
			assert.NotContains(t, listed(t, h.connect(version, speaking())), "resumeToken")
			c := h.connect(version, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
			assert.Contains(t, listed(t, c), "resumeToken")
			first, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
			require.NoError(t, err)
			said, err := json.Marshal(first.StructuredContent)
			require.NoError(t, err)
			var waits struct{ Status, ResumeToken string }
			require.NoError(t, json.Unmarshal(said, &waits))
			assert.Equal(t, "waiting", waits.Status)
			end, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "talk", Arguments: map[string]any{
				"resumeToken": waits.ResumeToken, "answers": map[string]any{"word1": map[string]any{"word": "w1"}},
			}})
			require.NoError(t, err)
			assert.False(t, end.IsError)
			assert.Equal(t, "w1", text(t, end))
		})
	}
}

// The form in the window is a tool that the SDK's server does not have: a host that would show it is asked otherwise.
func TestMountedServersHaveNoForm(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	h := mount(t, gosdk.Options{Ledger: store}, talk(1))
	shows := &mcp.ClientCapabilities{}
	shows.AddExtension("io.modelcontextprotocol/ui", map[string]any{"mimeTypes": []any{"text/html;profile=mcp-app"}})
	for _, version := range []string{modern, legacy} {
		c := h.connect(version, &mcp.ClientOptions{Capabilities: shows})
		first, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
		require.NoError(t, err)
		assert.NotContains(t, text(t, first), "form is shown", version)
		assert.Contains(t, text(t, first), "answers", version)
	}
}

// A tool that the SDK's server has in place of a mounted one is listed as it is itself; one that other middleware has copied is
// still ours.
func TestToolsInPlaceOfMountedOnes(t *testing.T) {
	s := newSDK(nil)
	s.AddReceivingMiddleware(copying(func(*mcp.Tool) {}))
	h := mountOn(t, s, gosdk.Options{}, talk(1))
	for _, version := range []string{modern, legacy} {
		c := h.connect(version, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
		assert.Contains(t, listed(t, c), "resumeToken", version)
	}
	type args struct {
		City string `json:"city"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "talk"}, func(_ context.Context, _ *mcp.CallToolRequest, in args) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.City}}}, nil, nil
	})
	for _, version := range []string{modern, legacy} {
		c := h.connect(version, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
		assert.Contains(t, listed(t, c), `"city"`, version)
		assert.NotContains(t, listed(t, c), "resumeToken", version)
		said, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "talk", Arguments: map[string]any{"city": "Rome"}})
		require.NoError(t, err)
		assert.Equal(t, "Rome", text(t, said), version)
	}
}

// copying is middleware that lists copies of tools, which it changes.
func copying(change func(*mcp.Tool)) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, r)
			if list, ok := result.(*mcp.ListToolsResult); ok {
				for i, tool := range list.Tools {
					copied := *tool
					change(&copied)
					list.Tools[i] = &copied
				}
			}
			return result, err
		}
	}
}

// listed is the list of tools that a client gets.
func listed(t *testing.T, c *mcp.ClientSession) string {
	t.Helper()
	list, err := c.ListTools(t.Context(), nil)
	require.NoError(t, err)
	raw, err := json.Marshal(list.Tools)
	require.NoError(t, err)
	return string(raw)
}
