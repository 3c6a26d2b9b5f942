package gosdk_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// What is mounted is listed for callers who may use it, and is not there for others. What takes another permission is listed.
func TestMountsPermit(t *testing.T) {
	h := mount(t, gosdk.Options{Permit: func(_ context.Context, who saga.Caller, kind, name string) error {
		switch {
		case who.Subject == "bob" && kind == "tool" && name == "talk":
			return server.ErrHidden
		case who.Subject == "carol":
			return &server.AuthError{Status: 403}
		}
		return nil
	}}, talk(1))
	url := h.serve(authorized)
	for user, c := range map[string]struct {
		listed bool
		says   string
	}{"alice": {true, ""}, "bob": {false, "there is no tool of that name; tools/list lists the tools of this server"}, "carol": {true, "this needs a permission that the caller does not have"}} {
		_, _, body := post(t, httpClient, url, message(1, "tools/list", object{"_meta": meta(forms)}), "Authorization", "Bearer "+user, "MCP-Protocol-Version", modern, "Mcp-Method", "tools/list")
		assert.Equal(t, c.listed, last(body).Get("result.tools.0.name").String() == "talk", body)
		assert.Equal(t, "private", last(body).Get("result.cacheScope").String(), body)
		_, body = modernCall(t, url, user, object{"name": "talk"})
		assert.Equal(t, c.says, last(body).Get("error.message").String(), body)
		session := newSession(t, url, user, forms)
		_, body = session.do("POST", message(1, "tools/list", object{}))
		assert.Equal(t, c.listed, last(body).Get("result.tools.0.name").String() == "talk", body)
	}
}

// So it is if other middleware has changed how it is listed.
func TestMountsPermitWhatOthersHaveChanged(t *testing.T) {
	s := newSDK(nil)
	s.AddReceivingMiddleware(copying(func(t *mcp.Tool) { t.InputSchema = map[string]any{"type": "object", "title": "changed"} }))
	hidden := false
	h := mountOn(t, s, gosdk.Options{Permit: func(context.Context, saga.Caller, string, string) error {
		if hidden {
			return server.ErrHidden
		}
		return nil
	}}, talk(1))
	c := h.connect(modern, &mcp.ClientOptions{})
	assert.Contains(t, listed(t, c), "changed")
	hidden = true
	assert.NotContains(t, listed(t, c), "talk")
}

// A panic of Permit fails the request that it was asked for, and no other.
func TestPanicsOfPermitAreErrors(t *testing.T) {
	h := mount(t, gosdk.Options{Permit: func(_ context.Context, who saga.Caller, _, _ string) error {
		if who.Subject == "bob" {
			_ = who.Scopes[1000]
		}
		return nil
	}}, talk(1))
	url := h.serve(authorized)
	list := func(user string) string {
		_, _, body := post(t, httpClient, url, message(1, "tools/list", object{"_meta": meta(forms)}), "Authorization", "Bearer "+user, "MCP-Protocol-Version", modern, "Mcp-Method", "tools/list")
		return last(body).Raw
	}
	assert.Contains(t, list("bob"), "internal error")
	_, body := modernCall(t, url, "bob", object{"name": "talk"})
	assert.Contains(t, last(body).Raw, "internal error")
	assert.Contains(t, list("alice"), "talk")
}

// A server's lists have what is its own, and what is mounted and permitted, whatever else is mounted.
func TestListsOfMountsThatPermit(t *testing.T) {
	own := &mcp.Prompt{Name: "its own"}
	for name, sagas := range map[string][]saga.Definition{"a tool and a prompt": {talk(1), essay}, "a prompt": {essay}, "a tool": {talk(1)}, "a resource": {files}} {
		t.Run(name, func(t *testing.T) {
			s := mcp.NewServer(&mcp.Implementation{Name: "host"}, nil)
			s.AddPrompt(own, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{}, nil
			})
			mcp.AddTool(s, &mcp.Tool{Name: "own"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
			s.AddResource(&mcp.Resource{Name: "own", URI: "own://x"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{}, nil
			})
			h := mountOn(t, s, gosdk.Options{Permit: func(context.Context, saga.Caller, string, string) error { return nil }}, sagas...)
			for _, version := range []string{modern, legacy} {
				c := h.connect(version, &mcp.ClientOptions{})
				var names []string
				prompts, err := c.ListPrompts(t.Context(), nil)
				require.NoError(t, err)
				for _, p := range prompts.Prompts {
					names = append(names, p.Name)
				}
				tools, err := c.ListTools(t.Context(), nil)
				require.NoError(t, err)
				for _, e := range tools.Tools {
					names = append(names, e.Name)
				}
				resources, err := c.ListResources(t.Context(), nil)
				require.NoError(t, err)
				templates, err := c.ListResourceTemplates(t.Context(), nil)
				require.NoError(t, err)
				for _, e := range templates.ResourceTemplates {
					names = append(names, e.Name)
				}
				assert.Len(t, resources.Resources, 1)
				want := []string{"its own", "own"}
				for _, d := range sagas {
					p, err := d.Compile()
					require.NoError(t, err)
					want = append(want, p.Name)
				}
				assert.ElementsMatch(t, want, names, version)
			}
		})
	}
}
