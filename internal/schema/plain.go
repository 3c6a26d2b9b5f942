package schema

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// plain is what the arguments of most tools are: an object without further members, whose
// members are strings, numbers and booleans without further conditions. It takes a tenth
// of the beginning of a saga to have the library validate these, which looks at Go values
// by reflection.
//
// It only ever accepts. What it does not accept is for the library to refuse, or to accept
// after all.
type plain struct {
	kinds    map[string]jsontext.Kind
	required []string
}

// newPlain returns the plain form of a schema, or nil if it has none.
func newPlain(s *jsonschema.Schema) *plain {
	rest, closed := withoutNotes(s), &jsonschema.Schema{Not: &jsonschema.Schema{}}
	rest.Properties, rest.PropertyOrder, rest.Required = nil, nil, nil
	if !reflect.DeepEqual(rest, jsonschema.Schema{Type: "object", AdditionalProperties: closed}) {
		return nil
	}
	p := plain{map[string]jsontext.Kind{}, s.Required}
	for name, member := range s.Properties {
		kind := map[string]jsontext.Kind{"string": '"', "boolean": 't', "integer": '0', "number": '0'}[member.Type]
		if kind == 0 || !reflect.DeepEqual(withoutNotes(member), jsonschema.Schema{Type: member.Type}) {
			return nil
		}
		p.kinds[name] = kind
	}
	return &p
}

// withoutNotes returns a copy of a schema without what only describes.
func withoutNotes(s *jsonschema.Schema) jsonschema.Schema {
	c := *s
	c.Schema, c.Comment, c.Title, c.Description, c.Default, c.Examples, c.Extra = "", "", "", "", nil, nil, nil
	c.Deprecated, c.ReadOnly, c.WriteOnly = false, false, false
	return c
}

// accepts reports whether raw surely fits. Numbers surely fit if they are short and all
// digits: others may be too large, or integers that are not written as such.
func (p *plain) accepts(raw json.RawMessage) bool {
	if p == nil || jsontext.Value(raw).Kind() != '{' || !jsonview.Valid(raw) {
		return false
	}
	missing := len(p.required)
	for name, v := range jsonview.Members(raw) {
		kind := jsontext.Value(v).Kind()
		if kind == 'f' {
			kind = 't'
		}
		if kind != p.kinds[string(name)] || kind == '0' && !digits(v) {
			return false
		}
		if slices.ContainsFunc(p.required, func(r string) bool { return r == string(name) }) {
			missing--
		}
	}
	return missing == 0
}

func digits(number []byte) bool {
	return len(number) < 100 && !slices.ContainsFunc(number, func(c byte) bool { return c != '-' && (c < '0' || c > '9') })
}
