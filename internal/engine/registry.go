package engine

import (
	"cmp"
	"slices"
)

// Registry is a set of tools, prompts and resources, in the order they were given.
// Of each, there may be several revisions: the newest is listed and called, the
// others end the sagas that they began.
type Registry struct {
	list [3][]*Program
	// byName has the revisions of each, the newest first.
	byName [3]map[string][]*Program
}

// Compiler is a definition as its author writes it: saga.Definition.
type Compiler = interface{ Compile() (*Program, error) }

// NewRegistry checks the definitions and collects the programs. If some are wrong, or two
// of a kind have the same name and revision, it fails with a *[DefinitionError] for
// each problem, joined: all are found at once, and the text has a line for each.
func NewRegistry(definitions ...Compiler) (*Registry, error) {
	set := new(Registry)
	var p Problems
	for i, d := range definitions {
		if d == nil {
			p.Add(nil, "definition %d is nil", i)
			continue
		}
		t, err := d.Compile()
		if err == nil {
			err = set.add(t)
		}
		if err != nil {
			p.list = append(p.list, err)
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return set, nil
}

func (s *Registry) add(t *Program) error {
	if s.byName[t.Kind] == nil {
		s.byName[t.Kind] = make(map[string][]*Program)
	}
	revisions := s.byName[t.Kind][t.Name]
	for _, other := range revisions {
		if other.Revision == t.Revision {
			return t.problem(nil, "two %vs have this name and the revision %d", t.Kind, t.Revision)
		}
	}
	if revisions == nil {
		s.list[t.Kind] = append(s.list[t.Kind], t)
	} else if newest := revisions[0]; newest.Revision < t.Revision {
		i := slices.Index(s.list[t.Kind], newest)
		s.list[t.Kind][i] = t
	}
	revisions = append(revisions, t)
	slices.SortFunc(revisions, func(a, b *Program) int { return cmp.Compare(b.Revision, a.Revision) })
	s.byName[t.Kind][t.Name] = revisions
	return nil
}

// Lookup returns the tool with the given name, or nil.
func (s *Registry) Lookup(name string) *Program { return s.Find(KindTool, name) }

// List returns the tools in the order they were given. Do not change it.
func (s *Registry) List() []*Program { return s.Of(KindTool) }

// Find returns the newest revision of the tool, prompt or resource with the
// given name, or nil.
func (s *Registry) Find(kind Kind, name string) *Program {
	if revisions := s.byName[kind][name]; revisions != nil {
		return revisions[0]
	}
	return nil
}

// Reader returns the revision that can go on from positions of the given one: that
// revision itself, or else the newest that reads it. It is nil if there is none.
func (s *Registry) Reader(kind Kind, name string, revision uint32) *Program {
	for _, t := range s.byName[kind][name] {
		if t.Revision == revision {
			return t
		}
	}
	for _, t := range s.byName[kind][name] {
		if t.code.Reads(revision) {
			return t
		}
	}
	return nil
}

// Of returns all of a kind in the order they were given. Do not change it.
func (s *Registry) Of(kind Kind) []*Program { return s.list[kind] }

// At returns the resource at a URI and the variables of its template. A resource
// with that very URI goes before those with a template.
func (s *Registry) At(uri string) (t *Program, variables map[string]string) {
	var found *Program
	for _, t := range s.list[KindResource] {
		v, ok := t.Resource.Match(uri)
		switch {
		case ok && !t.Resource.Template:
			return t, nil
		case ok && found == nil:
			found, variables = t, v
		}
	}
	return found, variables
}

// Serves reports whether there is a resource at a URI. It is cheaper than [Registry.At].
func (s *Registry) Serves(uri string) bool {
	return slices.ContainsFunc(s.list[KindResource], func(t *Program) bool { return t.Resource.serves(uri) })
}
