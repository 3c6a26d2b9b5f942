package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// inputSchema returns the schema of a tool's arguments: the one that the author
// gave, in one of two forms, or the one that follows from the type and its tags. An
// author's own schema must say what the tags say, which would else be ignored. It
// returns nil if there is a problem.
func (t *Program) inputSchema(p *Problems, given *jsonschema.Schema, raw json.RawMessage, args reflect.Type) *jsonschema.Schema {
	if given != nil && raw != nil {
		p.Add(nil, "it has both an InputSchema and a RawInputSchema")
		return nil
	}
	if raw != nil {
		var err error
		if given, err = parseSchema(raw); err != nil {
			p.Add(err, "the RawInputSchema is not usable")
			return nil
		}
	}
	var instead *givenSchema
	if given != nil {
		if t.decoding = JSONOptions; !tagged(args, map[reflect.Type]bool{}) {
			return given
		}
		instead = &givenSchema{given}
	}
	s, decoding, err := infer(args, instead)
	if err != nil {
		p.Add(err, "no input schema can be made from the type %v of the arguments", args)
		return nil
	}
	t.decoding = decoding
	if given != nil {
		return given
	}
	return s
}

// parseSchema reads a schema as strictly as arguments are read.
func parseSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	if !jsontext.Value(raw).IsValid() {
		return nil, errors.New("it is not valid JSON, or a name occurs twice")
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, err
	}
	return s, nil
}

// dialects of JSON Schema that can be validated; the first is MCP's default.
var dialects = []string{"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema"}

func checkDialect(s *jsonschema.Schema) error {
	if s.Schema == "" {
		return nil
	}
	for _, d := range dialects {
		if strings.TrimSuffix(s.Schema, "#") == d {
			return nil
		}
	}
	return fmt.Errorf("its $schema is %q; those that can be used are %s", s.Schema, strings.Join(dialects, " and "))
}

// resolve prepares a schema for validation and returns what clients are shown:
// raw if it is given, in its own order and spelling.
func resolve(s *jsonschema.Schema, raw json.RawMessage) (*schema, json.RawMessage, error) {
	if err := checkDialect(s); err != nil {
		return nil, nil, err
	}
	// Without a loader a reference to another document fails: schemas are never
	// fetched from the network.
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, nil, err
	}
	ready := &schema{resolved, newPlain(s), findFormats(s)}
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

// SchemaOf returns the JSON Schema of a Go type and of its fields' tags. It fails with
// a *[FieldError] if a tag has no meaning.
func SchemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	s, _, err := infer(t, nil)
	return s, err
}
