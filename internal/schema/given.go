package schema

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/fieldtags"
)

// givenSchema is the part of an author's own schema that a field's tags are held
// against. A nil one means that the author gave none; one without a schema, that the
// author's says nothing there.
type givenSchema struct{ schema *jsonschema.Schema }

func (g *givenSchema) part(of func(*jsonschema.Schema) *jsonschema.Schema) *givenSchema {
	if g == nil || g.schema == nil {
		return g
	}
	return &givenSchema{of(g.schema)}
}

func (g *givenSchema) member(name string) *givenSchema {
	return g.part(func(s *jsonschema.Schema) *jsonschema.Schema { return s.Properties[name] })
}

func (g *givenSchema) items() *givenSchema {
	return g.part(func(s *jsonschema.Schema) *jsonschema.Schema { return s.Items })
}

func (g *givenSchema) others() *givenSchema {
	return g.part(func(s *jsonschema.Schema) *jsonschema.Schema { return s.AdditionalProperties })
}

// lacks returns the first of a field's tags that the author's schema does not repeat,
// or "". What the tags come to is in member.
func (g *givenSchema) lacks(tags reflect.StructTag, member *jsonschema.Schema) string {
	names, _ := fieldtags.Keys(tags)
	for _, name := range names {
		keyword := name
		switch {
		case name == "notsecret" || !fieldtags.Any(reflect.StructTag(name+`:""`)):
			continue
		case name == headerTag:
			keyword = headerKeyword
		}
		want := keywordOf(member, keyword)
		if !reflect.DeepEqual(keywordOf(g.schema, keyword), want) {
			return name
		}
	}
	return ""
}

// keywordOf returns the value of a keyword, or nil. The choices of a list are those
// of its items; whether null is allowed besides them is for the type to say.
func keywordOf(s *jsonschema.Schema, keyword string) any {
	if s == nil {
		return nil
	}
	if keyword == "enum" && s.Items != nil {
		s = s.Items
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil // what cannot be shown is refused later
	}
	var keywords map[string]any
	if err := json.Unmarshal(raw, &keywords); err != nil {
		return nil
	}
	if list, ok := keywords[keyword].([]any); ok && keyword == "enum" {
		return slices.DeleteFunc(list, func(v any) bool { return v == nil })
	}
	return keywords[keyword]
}

// Tagged reports whether a type, or one in it, has a field with tags.
func Tagged(t reflect.Type) bool { return tagged(t, map[reflect.Type]bool{}) }

func tagged(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return tagged(t.Elem(), seen)
	case reflect.Struct:
		if seen[t] {
			return false
		}
		seen[t] = true
		for f := range t.Fields() {
			if fieldtags.Any(f.Tag) || tagged(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
