// Package schema makes JSON Schemas of Go types and of their fields' tags, and validates
// and decodes JSON by them.
//
// [ForTool] returns the schema of a tool's arguments or result, [ForForm] that of a form:
// the tags mean the same in both. [Resolve] makes a schema ready for [Schema.Validate],
// which checks the JSON before [Decode] decodes it.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Schema is a JSON Schema that is ready to use.
type Schema struct {
	resolved *jsonschema.Resolved
	plain    *plain
}

// Schema returns it as it is written.
func (s *Schema) Schema() *jsonschema.Schema { return s.resolved.Schema() }

// Parse reads a schema as strictly as arguments are read.
func Parse(raw json.RawMessage) (*jsonschema.Schema, error) {
	if !jsontext.Value(raw).IsValid() {
		return nil, errors.New("it is not valid JSON, or a name occurs twice")
	}
	s := new(jsonschema.Schema)
	return s, json.Unmarshal(raw, s)
}

// dialects of JSON Schema that can be validated; the first is MCP's default.
var dialects = []string{"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema"}

// Resolve prepares a schema for validation and returns what clients are shown:
// raw if it is given, in its own order and spelling.
func Resolve(s *jsonschema.Schema, raw json.RawMessage) (*Schema, json.RawMessage, error) {
	if s.Schema != "" && !slices.Contains(dialects, strings.TrimSuffix(s.Schema, "#")) {
		return nil, nil, fmt.Errorf("its $schema is %q; those that can be used are %s", s.Schema, strings.Join(dialects, " and "))
	}
	// Without a loader a reference to another document fails: schemas are never
	// fetched from the network.
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, nil, err
	}
	ready := &Schema{resolved, newPlain(s)}
	if raw == nil {
		raw, err = json.Marshal(s)
		return ready, raw, err
	}
	// Only white space goes: a message is one line on most transports.
	shown := jsontext.Value(append([]byte(nil), raw...))
	return ready, json.RawMessage(shown), shown.Compact()
}

// headerKeyword is what the struct tag header becomes: the argument is repeated in an
// HTTP header (MCP 2026-07-28, server/tools).
const headerKeyword = "x-mcp-header"

// Validate checks JSON text against the schema. The error is for the caller.
func (s *Schema) Validate(raw json.RawMessage) error {
	if s.plain.accepts(raw) {
		return nil
	}
	var v any
	// Strict: names that occur twice and invalid UTF-8 are refused, so that no
	// two readers of the same arguments see different ones.
	if err := jsonv2.Unmarshal(raw, &v); err != nil {
		if large, ok := errors.AsType[*jsonv2.SemanticError](err); ok && errors.Is(err, strconv.ErrRange) {
			return brief(fmt.Errorf("the number at %s is too large", large.JSONPointer))
		}
		return errors.New("they are not valid JSON, or a name occurs twice")
	}
	if err := s.resolved.Validate(v); err != nil {
		return brief(inWords(err))
	}
	if at, rule := brokenFormat(s.Schema(), v); rule != "" {
		return brief(fmt.Errorf("%s %s", at, rule))
	}
	return nil
}

var (
	surplus = regexp.MustCompile(`unexpected additional properties \[.*\]$`)
	quoted  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	null    = regexp.MustCompile(`\b(type|enum|const): <invalid reflect\.Value> `)
)

// inWords has the library's complaint name null as JSON does, and sorts the names that it complains about:
// it has them in random order.
func inWords(err error) error {
	text := null.ReplaceAllString(err.Error(), "$1: null ")
	return errors.New(surplus.ReplaceAllStringFunc(text, func(complaint string) string {
		names := quoted.FindAllString(complaint, -1)
		slices.Sort(names)
		return "unexpected additional properties [" + strings.Join(names, " ") + "]"
	}))
}

// maxComplaint is how long a complaint about a value may be, in bytes.
const maxComplaint = 500

// brief shortens the library's complaints in the middle: they show the whole value,
// between where it is and what is wrong with it.
func brief(err error) error {
	if len(err.Error()) <= maxComplaint {
		return err
	}
	text := err.Error()
	text = text[:maxComplaint/2] + " … " + text[len(text)-maxComplaint/2:]
	return errors.New(strings.ToValidUTF8(text, ""))
}

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
