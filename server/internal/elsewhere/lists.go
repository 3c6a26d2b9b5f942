package elsewhere

import (
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The arguments by which calls go on, as lists show them.
const (
	tokenProperty   = `{"type":"string","description":"To go on with a call that is not finished: the resumeToken of its result. All other arguments must be as in the first call."}`
	answersProperty = `{"type":"object","description":"With a resumeToken: what the user has answered, by the id of each question. Never make up an answer."}`
)

// Varies reports whether lists of tools are not the same for all clients.
func (r *Router) Varies() bool {
	able := &dialect.Caller{Apps: true, Trusted: true, Tasks: true}
	return slices.ContainsFunc(r.Tools.Of(engine.KindTool), func(t *engine.Program) bool { return r.Continues(t, able) })
}

// listKey names a list: by its first item, and by what of a client decides how it is shown. There are a few of each.
type listKey struct {
	first         *dialect.Entry
	features      steps.Features
	apps, trusted bool
	tasks         bool
}

// Listed returns a list of all tools as a client is to see it: those that are answered here have arguments for that. The
// list is made once for all clients that are alike, and is not to be changed.
func (r *Router) Listed(items []dialect.Entry, c *dialect.Caller) []dialect.Entry {
	if len(items) == 0 {
		return items
	}
	key := listKey{&items[0], c.Features, c.Apps, c.Trusted, c.Tasks}
	if made, ok := r.lists.Load(key); ok {
		return made.([]dialect.Entry)
	}
	made, _ := r.lists.LoadOrStore(key, r.list(items, c))
	return made.([]dialect.Entry)
}

func (r *Router) list(items []dialect.Entry, c *dialect.Caller) []dialect.Entry {
	items = slices.Clone(items)
	for n := range items {
		t, e := items[n].Program, &items[n].JSON
		if !r.Continues(t, c) {
			continue
		}
		schema := jsonview.Get(*e, "inputSchema")
		properties := dialect.With(jsonview.Get(schema, "properties"), engine.ResumeToken, []byte(tokenProperty))
		properties = dialect.With(properties, answersArgument, []byte(answersProperty))
		*e = dialect.With(*e, "inputSchema", dialect.With(schema, "properties", properties))
		if r.showsForm(t, c) {
			meta := dialect.With(jsonview.Get(*e, "_meta"), "ui", []byte(`{"resourceUri":"`+dialect.AppURI+`"}`))
			*e = dialect.With(*e, "_meta", dialect.With(meta, "ui/resourceUri", []byte(`"`+dialect.AppURI+`"`))) // as older hosts have it
		}
	}
	return items
}
