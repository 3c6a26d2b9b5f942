package saga

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
// gave, in one of two forms, or the one that follows from the type.
func (t *Tool) inputSchema(given *jsonschema.Schema, raw json.RawMessage, args reflect.Type) (*jsonschema.Schema, error) {
	switch {
	case given != nil && raw != nil:
		return nil, t.problem(nil, "it has both an InputSchema and a RawInputSchema")
	case raw != nil:
		s, err := parseSchema(raw)
		if err != nil {
			return nil, t.problem(err, "the RawInputSchema is not usable")
		}
		return s, nil
	case given != nil:
		return given, nil
	}
	s, err := jsonschema.ForType(args, inference())
	if err != nil {
		return nil, t.problem(err, "no input schema can be made from the type %v of the arguments", args)
	}
	annotateHeaders(s, args)
	return s, nil
}

// inference is how schemas are made from types. The library takes a json.Number for
// the string that it is to Go.
func inference() *jsonschema.ForOptions {
	return &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.Number](): {Type: "number"},
	}}
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
	ready := &schema{resolved, newPlain(s)}
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

// annotateHeaders puts the header tags of a struct, and of the structs in it,
// into the schema that was made from it.
func annotateHeaders(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		property := s.Properties[name]
		if property == nil {
			continue
		}
		if header, ok := f.Tag.Lookup(headerTag); ok {
			if property.Extra == nil {
				property.Extra = make(map[string]any)
			}
			property.Extra[headerKeyword] = header
		}
		annotateHeaders(property, f.Type)
	}
}
