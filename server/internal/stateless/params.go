package stateless

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// paramHeader is an argument that clients repeat in a header: a property of the
// input schema annotated with x-mcp-header (MCP 2026-07-28, server/tools).
type paramHeader struct {
	// path leads to the argument through nested objects.
	path []string
	// header is the whole name of the header.
	header string
}

// annotation is the keyword in a property's schema.
const annotation = "x-mcp-header"

// paramHeaders finds a tool's annotations. It fails with a *saga.DefinitionError
// if one is not allowed: clients would not show the tool to their models.
func paramHeaders(t *engine.Program) ([]paramHeader, error) {
	if !strings.Contains(string(t.InputSchema), annotation) {
		return nil, nil
	}
	var schema any
	w := schemaWalk{}
	err := json.Unmarshal(t.InputSchema, &schema)
	if err == nil {
		err = w.schema(schema, nil, true)
	}
	if err != nil {
		return nil, &saga.DefinitionError{Tool: t.Name, Problem: "the input schema has an " + annotation + " that is not allowed", Err: err}
	}
	return w.found, nil
}

// schemaWalk visits every schema within a schema.
type schemaWalk struct{ found []paramHeader }

// schema visits one schema. reachable: only properties lead here from the root,
// so that an argument at path is meant and no other.
func (w *schemaWalk) schema(schema any, path []string, reachable bool) error {
	keywords, _ := schema.(map[string]any) // else it is true or false
	if name, ok := keywords[annotation]; ok {
		if err := w.annotated(name, keywords["type"], path, reachable); err != nil {
			return err
		}
	}
	for keyword, v := range keywords {
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			schemas, _ := v.(map[string]any)
			for name, v := range schemas {
				if err := w.schema(v, append(slices.Clip(path), name), reachable && keyword == "properties"); err != nil {
					return err
				}
			}
		case "default", "const", "enum", "examples":
			// They hold values, not schemas.
		default:
			// Whatever else there is, one schema or several, a property below it is not one of
			// the root's.
			schemas, several := v.([]any)
			if !several {
				schemas = []any{v}
			}
			for _, v := range schemas {
				if err := w.schema(v, path, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *schemaWalk) annotated(value, kind any, path []string, reachable bool) error {
	at := "/" + strings.Join(path, "/")
	name, ok := value.(string)
	if !ok || !isToken(name) {
		return fmt.Errorf("at %s: its value must be the name of a header (RFC 9110 token)", at)
	}
	if !reachable || len(path) == 0 {
		return fmt.Errorf("at %s: it is allowed on properties of the root and of objects nested in it only", at)
	}
	if kind != "string" && kind != "integer" && kind != "boolean" {
		return fmt.Errorf("at %s: the property's type must be string, integer or boolean", at)
	}
	p := paramHeader{path, "Mcp-Param-" + name}
	if slices.ContainsFunc(w.found, func(other paramHeader) bool { return strings.EqualFold(other.header, p.header) }) {
		return fmt.Errorf("at %s: there are two properties with the header %s", at, p.header)
	}
	w.found = append(w.found, p)
	return nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// matchParams demands that the headers of a tool's arguments say what the
// arguments say (MCP 2026-07-28, basic/transports/streamable-http, custom
// headers).
func (d *stateless) matchParams(r *request, tool string, args jsontext.Value) *wire.Error {
	if r.Header == nil || r.Client != nil && !r.served.saga {
		return nil // there are none, or others see to them
	}
	for _, p := range d.params[tool] {
		value, present, problem := wire.DecodedHeader(r.Header, p.header)
		arg := jsontext.Value(jsonview.Get(args, p.path...))
		if arg.Kind() == 'n' {
			arg = nil
		}
		switch {
		case problem != "":
		case arg == nil && present:
			problem = "is there, but its argument is not"
		case arg != nil && !present:
			if !r.served.saga { // SDKs send these headers for MCP's own methods only
				problem = "is missing"
			}
		case arg != nil && !sameParam(arg, value):
			problem = "is not what the argument says"
		}
		if problem != "" {
			return wire.Mismatch(p.header, problem)
		}
	}
	return nil
}

// sameParam compares an argument with a header: strings as they are, numbers by
// value, as 42 and 42.0 are one integer.
func sameParam(arg jsontext.Value, value string) bool {
	switch arg.Kind() {
	case '"':
		s, ok := jsonview.String(arg)
		return ok && s == value
	case 't', 'f':
		return value == string(arg)
	case '0':
		a, ok := safeInteger(string(arg))
		b, same := safeInteger(value)
		return ok && same && a == b
	}
	return false // an object or a list has no form in a header
}

// safeInteger reads an integer that all clients can represent (within 2^53).
func safeInteger(s string) (float64, bool) {
	if jsontext.Value(s).Kind() != '0' || !jsontext.Value(s).IsValid() {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53-1
}
