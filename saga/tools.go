package saga

import (
	"cmp"
	"slices"
)

// Tools is a set of tools, prompts and resources, in the order they were given.
// Of each, there may be several revisions: the newest is listed and called, the
// others end the sagas that they began.
type Tools struct {
	list [3][]*Tool
	// byName has the revisions of each, the newest first.
	byName [3]map[string][]*Tool
}

// NewTools checks the definitions and collects the tools. If some are wrong, or two
// of a kind have the same name and revision, it fails with a *[DefinitionError] for
// each problem, joined: all are found at once, and the text has a line for each.
func NewTools(definitions ...Definition) (*Tools, error) {
	set := new(Tools)
	var p problems
	for i, d := range definitions {
		if d == nil {
			p.add(nil, "definition %d is nil", i)
			continue
		}
		t, err := d.Tool()
		if err == nil {
			err = set.add(t)
		}
		if err != nil {
			p.list = append(p.list, err)
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return set, nil
}

func (s *Tools) add(t *Tool) error {
	if s.byName[t.Kind] == nil {
		s.byName[t.Kind] = make(map[string][]*Tool)
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
	slices.SortFunc(revisions, func(a, b *Tool) int { return cmp.Compare(b.Revision, a.Revision) })
	s.byName[t.Kind][t.Name] = revisions
	return nil
}

// Lookup returns the tool with the given name, or nil.
func (s *Tools) Lookup(name string) *Tool { return s.Find(KindTool, name) }

// List returns the tools in the order they were given. Do not change it.
func (s *Tools) List() []*Tool { return s.Of(KindTool) }

// Find returns the newest revision of the tool, prompt or resource with the
// given name, or nil.
func (s *Tools) Find(kind Kind, name string) *Tool {
	if revisions := s.byName[kind][name]; revisions != nil {
		return revisions[0]
	}
	return nil
}

// Reader returns the revision that can go on from positions of the given one: that
// revision itself, or else the newest that reads it. It is nil if there is none.
func (s *Tools) Reader(kind Kind, name string, revision uint32) *Tool {
	for _, t := range s.byName[kind][name] {
		if t.Revision == revision {
			return t
		}
	}
	for _, t := range s.byName[kind][name] {
		if t.program.reads(revision) {
			return t
		}
	}
	return nil
}

// Of returns all of a kind in the order they were given. Do not change it.
func (s *Tools) Of(kind Kind) []*Tool { return s.list[kind] }

// At returns the resource at a URI and the variables of its template. A resource
// with that very URI goes before those with a template.
func (s *Tools) At(uri string) (t *Tool, variables map[string]string) {
	var found *Tool
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

// Serves reports whether there is a resource at a URI. It is cheaper than [Tools.At].
func (s *Tools) Serves(uri string) bool {
	return slices.ContainsFunc(s.list[KindResource], func(t *Tool) bool { return t.Resource.serves(uri) })
}
