package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// Effect is an effect of a program. Its types are known behind it only.
type Effect interface {
	// Declaration is what its author says of it.
	Declaration() Declaration
	// Undo undoes what r records. It fails with [ErrNothingToUndo] if the effect has no
	// Undo, and with a *[FinalError] if what was done can no longer be undone.
	Undo(ctx context.Context, key string, r *EffectRecord) error
	// Readable reports whether the present types can read what r records.
	Readable(r *EffectRecord) error
	// Redo performs again, in a test, what r records.
	Redo(ctx context.Context, key string, r *EffectRecord) error
	// Decoded shows to a test what r decodes to.
	Decoded(r *EffectRecord) (input, result json.RawMessage, err error)
	// Stage encodes an input and a result that a test supplies.
	Stage(p sagahooks.Performed) (in, out sagahooks.Value, err error)
}

// Declaration is what the engine knows of an effect apart from its types.
type Declaration struct {
	// Name is the effect's, Self what its author declared: another effect may have the
	// same name.
	Name string
	Self any
	// Undoable says that it has an Undo.
	Irreversible, Undoable bool
	// BuildsOn are the names and selves of other effects.
	BuildsOn []Declaration
	// Problem says why it cannot be registered, or is empty.
	Problem string
	// Unrecordable says why its types cannot be recorded, or is nil.
	Unrecordable error
}

// declare takes the effects that the tool may perform.
func (t *Program) declare(p *Problems, effects []Effect) {
	t.effects = make(map[string]Effect, len(effects))
	for i, e := range effects {
		if e == nil {
			p.Add(nil, "Effects[%d] is nil", i)
			continue
		}
		d := e.Declaration()
		switch {
		case d.Problem != "":
			p.Add(nil, "Effects[%d] (%q) %s", i, d.Name, d.Problem)
			continue
		case t.effects[d.Name] != nil:
			p.Add(nil, "two effects have the name %q", d.Name)
			continue
		}
		if d.Unrecordable != nil {
			p.Add(d.Unrecordable, "effect %q cannot be recorded", d.Name)
		}
		t.effects[d.Name] = e
	}
	t.buildsOn = make(map[string][]string)
	for _, e := range effects {
		if e != nil && t.effects[e.Declaration().Name] == e {
			t.checkBuildsOn(p, e.Declaration())
		}
	}
}

// checkBuildsOn finds out what an effect builds on, also by way of others.
func (t *Program) checkBuildsOn(p *Problems, d Declaration) {
	var all []string
	var visit func(d Declaration)
	visit = func(by Declaration) {
		for _, on := range by.BuildsOn {
			e := t.effects[on.Name]
			switch {
			case e == nil || e.Declaration().Self != on.Self:
				if by.Name == d.Name { // the others are reported by themselves
					p.Add(nil, "effect %q builds on %q, which is not declared; add it to the tool's Effects", d.Name, on.Name)
				}
			case on.Name == d.Name:
				p.Add(nil, "effect %q builds on itself", d.Name)
			case !slices.Contains(all, on.Name):
				all = append(all, on.Name)
				visit(e.Declaration())
			}
		}
	}
	visit(d)
	t.buildsOn[d.Name] = all
}

// neededBy names an effect that is not undone and builds on the given one, or returns
// "". An effect without an Undo needs no keeping.
func (t *Program) neededBy(name string, outstanding []*EffectRecord) string {
	if e := t.effects[name]; e == nil || !e.Declaration().Undoable {
		return ""
	}
	for _, r := range outstanding {
		if slices.Contains(t.buildsOn[r.name], name) {
			return r.name
		}
	}
	return ""
}
