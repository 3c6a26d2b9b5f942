package gosdk

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// oneCaller is the cacheScope of lists that are not the same for all callers.
const oneCaller = "private"

// relist has what is ours in a list be as our server lists it for the client: without what its caller may not see, and a tool
// with the arguments by which the client continues if its user is asked elsewhere, and no output schema that it cannot read.
func (m *Mounted) relist(ctx context.Context, r mcp.Request, result mcp.Result) (err error) {
	if tools, ok := result.(*mcp.ListToolsResult); ok {
		// What callers may not see is known by its name: other middleware may have changed the rest.
		tools.Tools, err = ours(ctx, m, r, "tools", "name", tools.Tools, func(t *mcp.Tool) (string, bool) {
			return t.Name, m.tools[t.Name] != nil && (m.permits || m.lists(t))
		}, m.withSchemas)
	}
	if !m.permits || err != nil {
		return err
	}
	switch list := result.(type) {
	case *mcp.ListToolsResult:
		list.CacheScope = oneCaller
	case *mcp.ListPromptsResult:
		list.CacheScope = oneCaller
		list.Prompts, err = ours(ctx, m, r, "prompts", "name", list.Prompts, func(p *mcp.Prompt) (string, bool) { return p.Name, m.prompts[p.Name] }, nil)
	case *mcp.ListResourcesResult:
		list.CacheScope = oneCaller
		list.Resources, err = ours(ctx, m, r, "resources", "uri", list.Resources, func(e *mcp.Resource) (string, bool) { return e.URI, m.resources[e.URI] }, nil)
	case *mcp.ListResourceTemplatesResult:
		list.CacheScope = oneCaller
		list.ResourceTemplates, err = ours(ctx, m, r, "resources/templates", "uriTemplate", list.ResourceTemplates, func(e *mcp.ResourceTemplate) (string, bool) { return e.URITemplate, m.resources[e.URITemplate] }, nil)
	}
	return err
}

// lists reports whether an entry of the SDK's list is of a tool that is mounted, and not of one that has replaced it. Other
// middleware may have copied it.
func (m *Mounted) lists(t *mcp.Tool) bool {
	own := m.tools[t.Name]
	if own == nil || own == t {
		return own != nil
	}
	shown, err := json.Marshal(t.InputSchema)
	if err != nil {
		return false
	}
	a, errA := jsonview.Canonical(shown)
	b, errB := jsonview.Canonical(own.InputSchema.(json.RawMessage))
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// ours returns a list with those of our entries that our server lists; key is the member by which they are known, of says what
// that is in an entry of the SDK's, and whether it is ours, and as, if it is not nil, makes it what our server has it be.
func ours[T any](ctx context.Context, m *Mounted, r mcp.Request, what, key string, list []T, of func(T) (string, bool), as func(T, json.RawMessage) T) ([]T, error) {
	ss, ok := r.GetSession().(*mcp.ServerSession)
	if !ok || !slices.ContainsFunc(list, func(e T) bool { _, mounted := of(e); return mounted }) {
		return list, nil
	}
	all := new(mcp.ListToolsParams) // on one page
	if p := r.GetParams(); p != nil && !reflect.ValueOf(p).IsNil() {
		all.Meta = p.GetMeta()
	}
	raw, err := m.handle(ctx, what+"/list", ss, all, r.GetExtra())
	if err != nil {
		return nil, err
	}
	member := what
	if what == "resources/templates" {
		member = "resourceTemplates"
	}
	listed := map[string]json.RawMessage{}
	for e := range jsonview.Elements(jsonview.Get(raw, member)) {
		name, _ := jsonview.String(jsonview.Get(e, key))
		listed[name] = e
	}
	kept := []T{} // not to be null
	for _, e := range list {
		name, mounted := of(e)
		entry, ok := listed[name]
		if mounted && !ok {
			continue
		}
		if mounted && as != nil {
			e = as(e, entry)
		}
		kept = append(kept, e)
	}
	return kept, nil
}

// withSchemas is a tool of the SDK's list with the schemas of ours, unless it has replaced ours.
func (m *Mounted) withSchemas(t *mcp.Tool, entry json.RawMessage) *mcp.Tool {
	if !m.lists(t) {
		return t
	}
	return withSchemas(t, entry)
}

// withSchemas is a tool with the schemas of an entry of our list, as they are: the SDK reads them into maps, which forget the
// order of properties.
func withSchemas(t *mcp.Tool, entry json.RawMessage) *mcp.Tool {
	shown := *t
	shown.InputSchema, shown.OutputSchema = json.RawMessage(jsonview.Get(entry, "inputSchema")), nil
	if output := jsonview.Get(entry, "outputSchema"); output != nil {
		shown.OutputSchema = json.RawMessage(output)
	}
	return &shown
}
