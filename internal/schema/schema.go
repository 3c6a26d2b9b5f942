package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
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

// Resolve prepares a schema for validation and returns what clients are shown:
// raw if it is given, in its own order and spelling.
func Resolve(s *jsonschema.Schema, raw json.RawMessage) (*Schema, json.RawMessage, error) {
	if err := checkDialect(s); err != nil {
		return nil, nil, err
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
