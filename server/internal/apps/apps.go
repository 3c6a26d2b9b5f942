// Package apps has the form that hosts show in their windows for tools whose users the client cannot ask (MCP Apps,
// 2026-01-26): its page, and the tool by which it finds out what is asked, and answers. form.js is the form; calls.go
// answers it.
//
// Nothing in a message tells the call of a form from one of a model's. So an answer means that the host of this principal
// has given it, and no more; package elsewhere says which questions that will do for.
package apps

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Tool is the tool of the form, which hosts hide from models.
const Tool = "mcpsaga_form"

var (
	//go:embed form.html
	page string
	//go:embed form.js
	script string
)

// listedTool is what lists show of the tool.
const listedTool = `{"name":"` + Tool + `","title":"Form","description":"For the form in the window of the host only: models must not call it.",` +
	`"inputSchema":{"type":"object","properties":{"frame":{"type":"string"},"resumeToken":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"},"answers":{"type":"object"}}},` +
	`"_meta":{"ui":{"visibility":["app"]}}}`

// Apps serves the form of a host. Its zero value is none; use [New].
type Apps struct{ *elsewhere.Router }

// New returns what serves the form. All of a host's are the same.
func New(h *dialect.Host) *Apps { return &Apps{elsewhere.New(h)} }

// Offer has a host serve the form if any of its tools asks and there is a ledger, through which the form finds the calls.
// It fails if there is another tool of that name.
func Offer(h *dialect.Host) error {
	h.Questions.Apps = h.Tasks != nil // which is a way to ask, maybe the only one
	h.Questions.Apps = h.Questions.Apps && elsewhere.New(h).Varies()
	if h.Questions.Apps && h.Tools.Find(engine.KindTool, Tool) != nil {
		return fmt.Errorf("a tool is called %q, as the server's own: give it another name", Tool)
	}
	return nil
}

// Shows reports whether a client shows the form.
func (a *Apps) Shows(c *dialect.Caller) bool { return a.Questions.Apps && c.Apps }

// Listed returns a list of tools as a client is to see it, with that of the form if it shows one for any of them.
func (a *Apps) Listed(items []dialect.Entry, c *dialect.Caller) []dialect.Entry {
	if !a.Shows(c) || !slices.ContainsFunc(a.Tools.Of(engine.KindTool), func(t *engine.Program) bool { return a.Continues(t, c) }) {
		return items
	}
	return append(items[:len(items):len(items)], dialect.Entry{JSON: []byte(listedTool)})
}

// Offers adds to a server's capabilities, for a client that shows the form, what it needs for that.
func (a *Apps) Offers(offers map[string]any, c *dialect.Caller) {
	if !a.Shows(c) {
		return
	}
	dialect.Extend(offers, dialect.AppsExtension)
	if offers["resources"] == nil {
		offers["resources"] = struct{}{}
	}
}

// Page is the ReadResourceResult of the form, without its closing brace, if that is what the URI names.
func (a *Apps) Page(uri string) (open []byte, ok bool) {
	if !a.Questions.Apps || uri != dialect.AppURI {
		return nil, false
	}
	open, _ = wire.Marshal(map[string]any{"contents": []any{map[string]any{ // strings always encode
		"uri": dialect.AppURI, "mimeType": dialect.AppType, "text": strings.Replace(page, "{{script}}", script, 1),
		"_meta": map[string]any{"ui": map[string]any{"prefersBorder": true}},
	}}})
	return open[:len(open)-1], true
}
