package gosdk

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server"
)

// oneCaller is the cacheScope of lists that are not the same for all callers.
const oneCaller = "private"

// visible takes what callers may not see out of a list.
func (m *Mounted) visible(ctx context.Context, r mcp.Request, result mcp.Result) error {
	if m.permit == nil {
		return nil
	}
	var err error
	switch list := result.(type) {
	case *mcp.ListToolsResult:
		list.CacheScope = oneCaller
		list.Tools, err = permitted(ctx, m, r, "tool", list.Tools, func(t *mcp.Tool) (string, bool) { _, ours := m.tools[t.Name]; return t.Name, ours })
	case *mcp.ListPromptsResult:
		list.CacheScope = oneCaller
		list.Prompts, err = permitted(ctx, m, r, "prompt", list.Prompts, func(p *mcp.Prompt) (string, bool) { return p.Name, m.prompts[p.Name] })
	case *mcp.ListResourcesResult:
		list.CacheScope = oneCaller
		list.Resources, err = permitted(ctx, m, r, "resource", list.Resources, func(e *mcp.Resource) (string, bool) { return e.Name, m.resources[e.URI] })
	case *mcp.ListResourceTemplatesResult:
		list.CacheScope = oneCaller
		list.ResourceTemplates, err = permitted(ctx, m, r, "resource", list.ResourceTemplates, func(e *mcp.ResourceTemplate) (string, bool) { return e.Name, m.resources[e.URITemplate] })
	}
	return err
}

// permitted returns what of a list the caller may see; of says what an entry is called, and whether it is mounted.
func permitted[T any](ctx context.Context, m *Mounted, r mcp.Request, kind string, list []T, of func(T) (name string, ours bool)) ([]T, error) {
	who, err := m.callerOf(r.GetExtra())
	if err != nil {
		return nil, m.internal(ctx, kind+"s", err)
	}
	kept := []T{} // not to be null
	for _, e := range list {
		name, ours := of(e)
		if ours {
			err := engine.Protect(func() error { return m.permit(ctx, who, kind, name) }) // the SDK recovers from no panic
			if errors.Is(err, server.ErrHidden) {
				continue
			}
			if err != nil && !errors.As(err, new(*server.AuthError)) {
				return nil, m.internal(ctx, kind+"s", err)
			}
		}
		kept = append(kept, e)
	}
	return kept, nil
}
