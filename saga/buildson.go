package saga

import "slices"

// checkBuildsOn finds out what an effect builds on, also by way of others.
func (t *Tool) checkBuildsOn(p *problems, d declaration) {
	var all []string
	var visit func(d declaration)
	visit = func(by declaration) {
		for _, e := range by.buildsOn {
			var on declaration
			if e != nil {
				on = e.declaration()
			}
			switch {
			case t.effects[on.name] == nil || t.effects[on.name].Declared != e:
				if by.name == d.name { // the others are reported by themselves
					p.add(nil, "effect %q builds on %q, which is not declared; add it to the tool's Effects", d.name, on.name)
				}
			case on.name == d.name:
				p.add(nil, "effect %q builds on itself", d.name)
			case !slices.Contains(all, on.name):
				all = append(all, on.name)
				visit(on)
			}
		}
	}
	visit(d)
	t.buildsOn[d.name] = all
}

// neededBy names an effect that is not undone and builds on the given one, or returns
// "". An effect without an Undo needs no keeping.
func (t *Tool) neededBy(name string, outstanding []*effectRecord) string {
	if e := t.effects[name]; e == nil || !e.declaration().undoable {
		return ""
	}
	for _, r := range outstanding {
		if slices.Contains(t.buildsOn[r.name], name) {
			return r.name
		}
	}
	return ""
}
