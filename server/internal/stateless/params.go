package stateless

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
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
	w := schemaWalk{}
	if err := w.schema(jsontext.Value(t.InputSchema), nil, true); err != nil {
		return nil, &saga.DefinitionError{Tool: t.Name, Problem: "the input schema has an " + annotation + " that is not allowed", Err: err}
	}
	return w.found, nil
}

// schemaWalk visits every schema within a schema.
type schemaWalk struct{ found []paramHeader }

// schema visits one schema. reachable: only properties lead here from the root,
// so that an argument at path is meant and no other.
func (w *schemaWalk) schema(raw jsontext.Value, path []string, reachable bool) error {
	if raw.Kind() != '{' {
		return nil // true or false
	}
	var keywords map[string]jsontext.Value
	if err := jsonv2.Unmarshal(raw, &keywords); err != nil {
		return err
	}
	if name, ok := keywords[annotation]; ok {
		if err := w.annotated(name, keywords["type"], path, reachable); err != nil {
			return err
		}
	}
	for keyword, v := range keywords {
		var err error
		switch keyword {
		case "properties":
			err = w.each(v, path, reachable)
		case "patternProperties", "$defs", "definitions", "dependentSchemas":
			err = w.each(v, path, false)
		case "default", "const", "enum", "examples":
			// They hold values, not schemas.
		default:
			// Whatever else there is, a property below it is not one of the root's.
			err = w.any(v, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each visits the schemas of an object of schemas.
func (w *schemaWalk) each(raw jsontext.Value, path []string, reachable bool) error {
	if raw.Kind() != '{' {
		return nil
	}
	var schemas map[string]jsontext.Value
	if err := jsonv2.Unmarshal(raw, &schemas); err != nil {
		return err
	}
	for name, v := range schemas {
		if err := w.schema(v, append(slices.Clip(path), name), reachable); err != nil {
			return err
		}
	}
	return nil
}

// any visits the schemas in the value of a keyword: one, or a list.
func (w *schemaWalk) any(raw jsontext.Value, path []string) error {
	if raw.Kind() != '[' {
		return w.schema(raw, path, false)
	}
	var list []jsontext.Value
	if err := jsonv2.Unmarshal(raw, &list); err != nil {
		return err
	}
	for _, v := range list {
		if err := w.schema(v, path, false); err != nil {
			return err
		}
	}
	return nil
}

func (w *schemaWalk) annotated(value, kind jsontext.Value, path []string, reachable bool) error {
	at := "/" + strings.Join(path, "/")
	name, ok := jsonview.String(value)
	if !ok || !isToken(name) {
		return fmt.Errorf("at %s: its value must be the name of a header (RFC 9110 token)", at)
	}
	if !reachable || len(path) == 0 {
		return fmt.Errorf("at %s: it is allowed on properties of the root and of objects nested in it only", at)
	}
	switch t, _ := jsonview.String(kind); t {
	case "string", "integer", "boolean":
	default:
		return fmt.Errorf("at %s: the property's type must be string, integer or boolean", at)
	}
	p := paramHeader{path, "Mcp-Param-" + name}
	for _, other := range w.found {
		if strings.EqualFold(other.header, p.header) {
			return fmt.Errorf("at %s: there are two properties with the header %s", at, p.header)
		}
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
		arg := argumentAt(args, p.path)
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

// argumentAt returns the argument at a path, or nil if there is none or null.
func argumentAt(args jsontext.Value, path []string) jsontext.Value {
	for _, name := range path {
		if args.Kind() != '{' {
			return nil
		}
		args = jsonview.Get(args, name)
	}
	if args.Kind() == 'n' {
		return nil
	}
	return args
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
