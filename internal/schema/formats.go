package schema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/fieldtags"
)

// formats are the parts of a schema where text has a format. The library takes the
// keyword for a note, as JSON Schema allows; whoever writes it wants it checked.
// They are found where a value always passes: in members, in items, in the values of
// a map.
type formats struct {
	format  string
	members map[string]*formats
	items   *formats
	others  *formats
}

// findFormats returns the formats in a schema, or nil if there are none. The schema
// is a tree.
func findFormats(s *jsonschema.Schema) *formats {
	if s == nil {
		return nil
	}
	f := formats{format: s.Format, items: findFormats(s.Items), others: findFormats(s.AdditionalProperties)}
	for name, member := range s.Properties {
		if found := findFormats(member); found != nil {
			if f.members == nil {
				f.members = map[string]*formats{}
			}
			f.members[name] = found
		}
	}
	if f.format == "" && f.members == nil && f.items == nil && f.others == nil {
		return nil
	}
	return &f
}

// check returns what a value breaks, and where: a JSON Pointer.
func (f *formats) check(v any) error {
	at, rule := f.broken(v)
	if rule == "" {
		return nil
	}
	return fmt.Errorf("%s %s", at, rule)
}

// broken returns the first rule that a value breaks, or "". Where that is it puts
// together on the way back only: the names in it are the client's, and may be long.
func (f *formats) broken(v any) (at, rule string) {
	if f == nil {
		return "", ""
	}
	switch v := v.(type) {
	case string:
		return "", fieldtags.CheckFormat(f.format, v)
	case []any:
		if f.items == nil {
			return "", ""
		}
		for i, item := range v {
			if at, rule = f.items.broken(item); rule != "" {
				return fmt.Sprintf("/%d%s", i, at), rule
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			within, ok := f.members[name]
			if !ok {
				within = f.others
			}
			if at, rule = within.broken(v[name]); rule != "" {
				return "/" + name + at, rule
			}
		}
	}
	return "", ""
}
