// Package schema makes JSON Schemas of Go types and of their fields' tags, and validates
// and decodes JSON by them.
//
// [ForTool] returns the schema of a tool's arguments or result, [ForForm] that of a form:
// the tags mean the same in both. [Resolve] makes a schema ready for [Schema.Validate],
// which checks the JSON before [Decode] decodes it.
package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	written  *jsonschema.Schema
	resolved *jsonschema.Resolved // of written, without the rules that numbers has
	numbers  exactly
	rounded  bool // its own choices may have been, so what is compared with them is
}

// Schema returns it as it is written.
func (s *Schema) Schema() *jsonschema.Schema { return s.written }

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
	shown, err := json.Marshal(withoutTrue(s))
	if err != nil {
		return nil, nil, err
	}
	ready := &Schema{written: s, numbers: exactly{}, rounded: longChoice.Match(shown)}
	library := s.CloneSchemas()
	if !refersToItself(shown) { // what refers to it needs them all
		ready.numbers.take(s, library)
	}
	// Without a loader a reference to another document fails: schemas are never
	// fetched from the network.
	if ready.resolved, err = library.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err == nil {
		err = ready.numbers.checkDefaults(s)
	}
	if err != nil {
		return nil, nil, err
	}
	if raw == nil {
		return ready, shown, nil
	}
	// Only white space goes: a message is one line on most transports.
	compact := jsontext.Value(append([]byte(nil), raw...))
	return ready, json.RawMessage(compact), compact.Compact()
}

// withoutTrue returns s so that no property of it is written as true, which is anything as well, but what clients such as the
// TypeScript SDK 1 refuse a whole list of tools for.
func withoutTrue(s *jsonschema.Schema) *jsonschema.Schema {
	shown := *s
	shown.Properties = maps.Clone(s.Properties)
	for name, property := range shown.Properties {
		if reflect.DeepEqual(property, nothing) {
			shown.Properties[name] = &jsonschema.Schema{Description: "Any JSON value."}
		}
	}
	return &shown
}

// headerKeyword is what the struct tag header becomes: the argument is repeated in an
// HTTP header (MCP 2026-07-28, server/tools).
const headerKeyword = "x-mcp-header"

// Validate checks JSON text against the schema. The error is for the caller.
func (s *Schema) Validate(raw json.RawMessage) error {
	if len(raw) > early {
		if at, wrong := misfit(s.written, raw); wrong != "" {
			return brief(errors.New(cmp.Or(at, "root") + " " + wrong))
		}
	}
	defer jsonview.TakeApart(len(raw))()
	var v any
	// Strict: names that occur twice and invalid UTF-8 are refused, so that no
	// two readers of the same arguments see different ones.
	if err := jsonv2.Unmarshal(raw, &v, s.readNumbers(raw)); err != nil {
		if large, ok := errors.AsType[*jsonv2.SemanticError](err); ok && errors.Is(err, strconv.ErrRange) {
			return brief(fmt.Errorf("the number at %s is too large", large.JSONPointer))
		}
		return errors.New("they are not valid JSON, or a name occurs twice")
	}
	if err := s.resolved.Validate(v); err != nil {
		return brief(inWords(err))
	}
	if len(s.numbers) > 0 {
		v = numbered(raw)
	}
	if at, rule := s.brokenRule(v); rule != "" {
		return brief(errors.New(strings.TrimLeft(at+" "+rule, " ")))
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
