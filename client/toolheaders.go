package client

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// toolHeaders are, by tool, the arguments that tools want repeated in headers, for gateways
// (MCP 2026-07-28, x-mcp-header).
type toolHeaders map[string][]mirrored

// mirrored is an argument that a header repeats.
type mirrored struct {
	path   []string // of names, from the root
	header string
}

// maxMirrored is how many arguments of a tool are looked at, and maxMirrorDepth how deep.
const (
	maxMirrored    = 1000
	maxMirrorDepth = 20
)

var headerToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// mirrors returns the arguments of a tool that headers repeat, and false if the schema
// says so in a way that MCP does not allow: such a tool must not be called.
func mirrors(inputSchema json.RawMessage) ([]mirrored, bool) {
	w := mirrorWalk{seen: map[string]bool{}}
	found := w.walk(inputSchema, nil)
	// What is found anywhere else than below properties is not allowed.
	return found, !w.wrong && w.anywhere(inputSchema, 0) == len(found)
}

type mirrorWalk struct {
	seen   map[string]bool
	looked int
	wrong  bool
}

func (w *mirrorWalk) walk(schema []byte, path []string) (found []mirrored) {
	if len(path) > maxMirrorDepth {
		return nil
	}
	for name, property := range jsonview.Members(jsonview.Get(schema, "properties")) {
		if w.looked++; w.looked > maxMirrored {
			return found
		}
		at := append(path[:len(path):len(path)], string(name))
		if raw := jsonview.Get(property, "x-mcp-header"); raw != nil {
			var header, kind string
			bad := json.Unmarshal(raw, &header) != nil || !headerToken.MatchString(header) || w.seen[strings.ToLower(header)]
			bad = bad || json.Unmarshal(jsonview.Get(property, "type"), &kind) != nil || kind != "string" && kind != "integer" && kind != "boolean"
			w.wrong = w.wrong || bad
			w.seen[strings.ToLower(header)] = true
			found = append(found, mirrored{at, "Mcp-Param-" + header})
		}
		found = append(found, w.walk(property, at)...)
	}
	return found
}

// anywhere counts the annotations in a schema, wherever they are.
func (w *mirrorWalk) anywhere(schema []byte, depth int) int {
	n := 0
	if depth > 2*maxMirrorDepth || !bytes.Contains(schema, []byte("x-mcp-header")) {
		return 0
	}
	for name, member := range jsonview.Members(schema) {
		switch string(name) {
		case "x-mcp-header":
			n++
		case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas": // names of anything
			for _, property := range jsonview.Members(member) {
				n += w.anywhere(property, depth+1)
			}
		case "enum", "const", "default", "examples":
		default:
			n += w.anywhere(member, depth+1)
			for element := range jsonview.Elements(member) {
				n += w.anywhere(element, depth+1)
			}
		}
	}
	return n
}

// mirror adds to a tools/call what headers are to repeat. If the server cannot be asked
// what that is, it has to refuse.
func (c *Client) mirror(ctx context.Context, p *Position, r *request) {
	if _, ok := c.transport.(*HTTP); !ok || r.method != "tools/call" || r.session {
		return
	}
	if c.headers.Load() == nil {
		limited, cancel := context.WithTimeout(ctx, c.options.RetryFor)
		defer cancel()
		_, _ = c.Tools(limited)
	}
	known := c.headers.Load()
	if known == nil {
		return
	}
	for _, m := range (*known)[p.Tool] {
		if value, ok := headerValue(jsonview.Get(p.Arguments, m.path...)); ok {
			r.header[m.header] = encodeHeader(value)
		}
	}
}

// headerValue is an argument as a header says it, and false if there is none.
func headerValue(raw []byte) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch raw[0] {
	case '"':
		return jsonview.String(raw)
	case '{', '[', 'n':
		return "", false
	}
	// 7.0 and 7e0 are the integer 7; what is none is for the server to refuse.
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.FormatInt(int64(f), 10), true
	}
	return string(raw), true
}
