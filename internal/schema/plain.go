package schema

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// plainSchema is a schema as most tools have it: an object whose members are
// strings, numbers and booleans without further conditions. What fits such a schema
// is found out here in a fraction of the time that the library takes, which looks
// at Go values by reflection.
//
// It only ever accepts. What it does not accept is for the library to refuse, with
// its error, or to accept after all.
type plainSchema struct {
	members  []plainMember
	required uint64 // bit i: members[i] must be there
	closed   bool   // others are not allowed
}

type plainMember struct{ name, kind string }

// maxPlain is how many members required has room for.
const maxPlain = 64

// newPlain returns the plain form of a schema, or nil if it has none.
func newPlain(s *jsonschema.Schema) *plainSchema {
	rest := withoutNotes(s)
	rest.Type, rest.Properties, rest.PropertyOrder, rest.Required, rest.AdditionalProperties = "", nil, nil, nil, nil
	if s.Type != "object" || len(s.Properties) > maxPlain || !reflect.ValueOf(rest).IsZero() {
		return nil
	}
	var p plainSchema
	switch no := (&jsonschema.Schema{Not: &jsonschema.Schema{}}); {
	case reflect.DeepEqual(s.AdditionalProperties, no):
		p.closed = true
	case s.AdditionalProperties != nil:
		return nil
	}
	at := map[string]int{}
	for name, member := range s.Properties {
		rest := withoutNotes(member)
		rest.Type = ""
		switch member.Type {
		case "string", "boolean", "integer", "number":
		default:
			return nil
		}
		if !reflect.ValueOf(rest).IsZero() {
			return nil
		}
		at[name] = len(p.members)
		p.members = append(p.members, plainMember{name, member.Type})
	}
	for _, name := range s.Required {
		i, ok := at[name]
		if !ok {
			return nil
		}
		p.required |= 1 << i
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

// accepts reports whether raw surely fits. A nil schema accepts nothing.
func (p *plainSchema) accepts(raw json.RawMessage) bool {
	if p == nil || jsontext.Value(raw).Kind() != '{' || !jsonview.Valid(raw) {
		return false
	}
	var found uint64
	for name, v := range jsonview.Members(raw) {
		i := slices.IndexFunc(p.members, func(m plainMember) bool { return m.name == string(name) })
		switch {
		case i >= 0 && !p.members[i].takes(v):
			return false
		case i >= 0:
			found |= 1 << i
		case p.closed || !simple(v):
			return false
		}
	}
	return found&p.required == p.required
}

// simple reports whether a member that the schema does not name is surely one that
// the library can read: there may be numbers that are too large.
func simple(v jsontext.Value) bool {
	switch v.Kind() {
	case '0':
		return digits(v, ".")
	case '{', '[':
		return false
	}
	return true
}

func (m *plainMember) takes(v jsontext.Value) bool {
	switch v.Kind() {
	case '"':
		return m.kind == "string"
	case 't', 'f':
		return m.kind == "boolean"
	case '0':
		return m.kind == "number" && digits(v, ".") || m.kind == "integer" && digits(v, "")
	}
	return false
}

// digits reports whether a number consists of digits, and perhaps of one other
// character. To JSON Schema 1.0 and 1e0 are integers as well, and some numbers are
// too large to be any.
func digits(number []byte, other string) bool {
	for _, c := range number {
		if c != '-' && (c < '0' || c > '9') && string(c) != other {
			return false
		}
	}
	return len(number) < 100
}
