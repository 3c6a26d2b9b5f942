// Package schema makes JSON Schemas of Go types and of their fields' tags, and validates
// and decodes JSON by them.
//
// [Infer] returns the schema of a type, and the options by which JSON is decoded into it:
// they fill in the defaults that tags give. [Resolve] makes a schema ready for
// [Schema.Validate], which checks the JSON before it is decoded. Package fieldtags says
// what tags mean, the same in arguments as in forms.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/mcpsaga/mcpsaga/internal/fieldtags"
)

// Schema is a JSON Schema that is ready to use.
type Schema struct {
	resolved *jsonschema.Resolved
	plain    *plainSchema
	formats  *formats
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
	ready := &Schema{resolved, newPlain(s), findFormats(s)}
	if raw == nil {
		raw, err = json.Marshal(s)
		return ready, raw, err
	}
	// Only white space goes: a message is one line on most transports.
	shown := jsontext.Value(append([]byte(nil), raw...))
	return ready, json.RawMessage(shown), shown.Compact()
}

// headerTag is the struct tag of arguments that clients repeat in an HTTP header,
// and headerKeyword what becomes of it (MCP 2026-07-28, server/tools).
const (
	headerTag     = "header"
	headerKeyword = "x-mcp-header"
)

// Of returns the JSON Schema of a Go type and of its fields' tags. It fails with
// a *[FieldError] if a tag has no meaning.
func Of(t reflect.Type) (*jsonschema.Schema, error) {
	s, _, err := Infer(t, nil)
	return s, err
}

// Validate checks JSON text against the schema. The error is for the caller.
func (s *Schema) Validate(raw json.RawMessage) error {
	if s.plain.accepts(raw) {
		return nil
	}
	var v any
	// Strict: names that occur twice and invalid UTF-8 are refused, so that no
	// two readers of the same arguments see different ones.
	if err := jsonv2.Unmarshal(raw, &v); err != nil {
		return errors.New("they are not valid JSON, or a name occurs twice")
	}
	if err := s.resolved.Validate(v); err != nil {
		return brief(inWords(err))
	}
	if at, rule := s.formats.broken(v); rule != "" {
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

// formats are the parts of a schema where text has a format. The library takes the
// keyword for a note, as JSON Schema allows; an author who writes it wants it checked.
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

// broken returns the first rule that a value breaks, or "", and where: a JSON Pointer. That
// it puts together on the way back only: the names in it are the client's, and may be long.
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

// numbers makes a json.Number the number that it is in encoding/json. To the library
// it is a string: a number did not decode into it, and it came out with quotes, which
// tokens sealed in the past still hold.
var numbers = jsonv2.JoinOptions(
	jsonv2.WithMarshalers(MarshalNumber),
	jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(readNumber)),
)

// MarshalNumber writes a json.Number as numbers does. Options with marshalers of their
// own need it besides them.
var MarshalNumber = jsonv2.MarshalToFunc(writeNumber)

func writeNumber(e *jsontext.Encoder, n json.Number) error {
	if isName(e.StackIndex(e.StackDepth())) {
		return e.WriteToken(jsontext.String(n.String()))
	}
	if n == "" {
		n = "0" // as encoding/json has it
	}
	v := jsontext.Value(n)
	if v.Kind() != '0' || !v.IsValid() {
		return fmt.Errorf("the json.Number %q is not a number", n.String())
	}
	return e.WriteValue(v)
}

func readNumber(d *jsontext.Decoder, n *json.Number) error {
	name := isName(d.StackIndex(d.StackDepth()))
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case 'n':
		return nil
	case '0':
		*n = json.Number(v)
		return nil
	case '"':
		text, err := jsontext.AppendUnquote(nil, v)
		if number := jsontext.Value(text); err == nil && (name || len(text) == 0 || number.Kind() == '0' && number.IsValid()) {
			*n = json.Number(text)
			return nil
		}
	}
	return fmt.Errorf("%s is not a number", v)
}

// isName reports whether what comes next in an object is the name of a member: the
// key of a map, which is a string whatever its type.
func isName(parent jsontext.Kind, length int64) bool { return parent == '{' && length%2 == 0 }

// JSONOptions encode and decode values as package encoding/json would, so that any type
// that authors know to work there works here, only faster.
var JSONOptions = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false), numbers)

// StrictJSONOptions refuse what the type has no place for.
var StrictJSONOptions = jsonv2.JoinOptions(JSONOptions, jsonv2.RejectUnknownMembers(true))
