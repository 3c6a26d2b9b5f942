// Package paramheader finds the arguments of a tool that clients repeat in headers, for gateways: properties of
// its input schema that are annotated with x-mcp-header (MCP 2026-07-28, server/tools).
package paramheader

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Param is an argument that a header repeats.
type Param struct {
	Path   []string // leads to the argument through nested objects
	Header string   // the whole name of the header
}

// Keyword is the annotation in a property's schema.
const Keyword = "x-mcp-header"

// maxSchema limits the size of a schema that is decoded, in bytes: clients get them from servers.
const maxSchema = 1 << 20

// Find returns the annotated arguments. It fails if an annotation is not allowed: then clients do not show the
// tool to their models.
func Find(inputSchema []byte) ([]Param, error) {
	if !bytes.Contains(inputSchema, []byte(Keyword)) {
		return nil, nil
	}
	if len(inputSchema) > maxSchema {
		return nil, fmt.Errorf("a schema with it may have %d bytes, not %d", maxSchema, len(inputSchema))
	}
	var schema any
	w := walk{names: map[string]bool{}}
	err := json.Unmarshal(inputSchema, &schema)
	if err == nil {
		err = w.schema(schema, nil, true)
	}
	return w.found, err
}

type walk struct {
	found []Param
	names map[string]bool // of the headers, in lower case
}

var token = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // RFC 9110

// schema finds the annotations of a schema and of every schema within. reachable: only properties lead here from
// the root, so that an argument at path is meant and no other.
func (w *walk) schema(schema any, path []string, reachable bool) error {
	keywords, _ := schema.(map[string]any) // else it is true or false
	if value, ok := keywords[Keyword]; ok {
		name, _ := value.(string)
		kind, lower, problem := keywords["type"], strings.ToLower(name), ""
		switch {
		case !token.MatchString(name):
			problem = "its value must be the name of a header (RFC 9110 token)"
		case !reachable || len(path) == 0:
			problem = "it is allowed on properties of the root and of objects nested in it only"
		case kind != "string" && kind != "integer" && kind != "boolean":
			problem = "the property's type must be string, integer or boolean"
		case w.names[lower]:
			problem = "there are two properties with the header Mcp-Param-" + name
		}
		if problem != "" {
			return fmt.Errorf("at /%s: %s", strings.Join(path, "/"), problem)
		}
		w.names[lower] = true
		w.found = append(w.found, Param{path, "Mcp-Param-" + name})
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
