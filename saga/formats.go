package saga

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

// check returns what a value at a path breaks.
func (f *formats) check(v any, path string) error {
	if f == nil {
		return nil
	}
	switch v := v.(type) {
	case string:
		if rule := fieldtags.CheckFormat(f.format, v); rule != "" {
			return fmt.Errorf("%s %s", path, rule)
		}
	case []any:
		if f.items == nil {
			return nil
		}
		for i, item := range v {
			if err := f.items.check(item, fmt.Sprintf("%s/%d", path, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			within, ok := f.members[name]
			if !ok {
				within = f.others
			}
			if err := within.check(v[name], path+"/"+name); err != nil {
				return err
			}
		}
	}
	return nil
}
