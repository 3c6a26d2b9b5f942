package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/fieldtags"
)

// kindOf tells which tags a field can have.
func kindOf(t reflect.Type, s *jsonschema.Schema) fieldtags.Kind {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch typ := typeOf(s); {
	case t == reflect.TypeFor[time.Time]():
		return fieldtags.Time
	case typ == "string" && s.Enum != nil:
		return fieldtags.Choosing
	case typ == "array" && t.Elem().Kind() == reflect.String && t.Elem() != reflect.TypeFor[json.Number]():
		if s.Items.Enum != nil {
			return fieldtags.ChoiceList
		}
		return fieldtags.TextList
	default:
		kind, ok := map[string]fieldtags.Kind{
			"string": fieldtags.Text, "integer": fieldtags.Integer, "number": fieldtags.Number, "boolean": fieldtags.Bool,
			"array": fieldtags.List, "object": fieldtags.Object,
		}[typ]
		if !ok {
			return fieldtags.Anything
		}
		return kind
	}
}

// typeOf returns the one type of a schema besides null, or "".
func typeOf(s *jsonschema.Schema) string {
	types := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
	if s.Type == "" && len(types) == 1 {
		return types[0]
	}
	return s.Type
}

// put writes what the tags say into a member's schema. What it returns is wrong with
// the default.
func put(k *fieldtags.Keywords, s *jsonschema.Schema) string {
	s.Title, s.Pattern, s.UniqueItems, s.MultipleOf = k.Title, k.Pattern, k.UniqueItems, k.MultipleOf
	s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum = k.Minimum, k.Maximum, k.ExclusiveMinimum, k.ExclusiveMaximum
	s.MinLength, s.MaxLength = k.MinLength, k.MaxLength
	if k.Format != "" {
		s.Format = k.Format
	}
	if k.Choices != nil {
		chosen := s
		if s.Items != nil {
			chosen = s.Items
		}
		choose(chosen, k.Choices)
	}
	if k.MinItems != nil {
		s.MinItems = k.MinItems
		if *k.MinItems > 0 && len(s.Types) > 0 {
			// To Go a null is a list without items.
			s.Type, s.Types = typeOf(s), nil
		}
	}
	if k.MaxItems != nil {
		s.MaxItems = k.MaxItems
	}
	if k.Header != "" {
		s.Extra = map[string]any{headerKeyword: k.Header}
	}
	if k.Default == nil {
		return ""
	}
	s.Default = defaultOf(*k.Default, s)
	ready, _, err := Resolve(s.CloneSchemas(), nil)
	if err == nil {
		err = ready.Validate(s.Default)
	}
	if err != nil {
		return fmt.Sprintf("%q is not valid: %v", *k.Default, err)
	}
	return ""
}

// defaultOf returns a default tag's value as JSON.
func defaultOf(v string, s *jsonschema.Schema) json.RawMessage {
	var value any = v
	switch typeOf(s) {
	case "array":
		value = strings.Split(v, "|")
	case "boolean":
		if b, err := strconv.ParseBool(v); err == nil {
			value = b
		}
	case "integer", "number":
		if n := jsontext.Value(v); n.Kind() == '0' && n.IsValid() {
			return json.RawMessage(v)
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil // strings and booleans have a JSON form
	}
	return raw
}

// choose allows only the choices. The enum is what every client understands, and
// what an error names; the titles are written as in forms.
func choose(s *jsonschema.Schema, choices []fieldtags.Choice) {
	titled := slices.ContainsFunc(choices, func(c fieldtags.Choice) bool { return c.Title != "" })
	for _, c := range choices {
		s.Enum = append(s.Enum, c.Value)
		if titled {
			var value any = c.Value
			s.OneOf = append(s.OneOf, &jsonschema.Schema{Const: &value, Title: cmp.Or(c.Title, c.Value)})
		}
	}
	if slices.Contains(s.Types, "null") {
		s.Enum = append(s.Enum, nil)
		if titled {
			s.OneOf = append(s.OneOf, &jsonschema.Schema{Type: "null"})
		}
	}
}
