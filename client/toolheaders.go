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

// toolHeaders are, by tool, the arguments that have to be repeated in headers, for gateways
// (MCP 2026-07-28, x-mcp-header).
type toolHeaders map[string][]mirrored

// mirrored is an argument that a header repeats.
type mirrored struct {
	path   []string // of names, from the root
	header string
}

// maxMirrored is how many arguments of a tool headers may repeat, and maxSchemaDepth how deep a
// schema may be that says so.
const (
	maxMirrored    = 1000
	maxSchemaDepth = 40
)

const headerKeyword = "x-mcp-header"

var headerToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// mirrors finds the arguments of a tool that headers have to repeat.
type mirrors struct {
	found []mirrored
	names map[string]bool
	wrong bool // the schema uses the keyword as MCP does not allow: the tool must not be called
}

// look searches a schema at a path of properties from the root, which is nil where the schema is
// reached in another way: there the keyword is not allowed.
func (m *mirrors) look(schema []byte, path []string, depth int) {
	if !bytes.Contains(schema, []byte(headerKeyword)) {
		return
	}
	if m.wrong = m.wrong || depth > maxSchemaDepth || len(m.found) > maxMirrored; m.wrong {
		return
	}
	for name, member := range jsonview.Members(schema) {
		switch string(name) {
		case headerKeyword:
			header, _ := jsonview.String(member)
			kind := string(jsonview.Get(schema, "type"))
			m.wrong = m.wrong || len(path) == 0 || m.names[strings.ToLower(header)] || !headerToken.MatchString(header) ||
				kind != `"string"` && kind != `"integer"` && kind != `"boolean"`
			m.names[strings.ToLower(header)] = true
			m.found = append(m.found, mirrored{path, "Mcp-Param-" + header})
		case "properties":
			for name, property := range jsonview.Members(member) {
				var at []string
				if path != nil {
					at = append(path[:len(path):len(path)], string(name))
				}
				m.look(property, at, depth+1)
			}
		case "$defs", "definitions", "patternProperties", "dependentSchemas":
			for _, property := range jsonview.Members(member) {
				m.look(property, nil, depth+1)
			}
		case "enum", "const", "default", "examples":
		default:
			m.look(member, nil, depth+1)
			for element := range jsonview.Elements(member) {
				m.look(element, nil, depth+1)
			}
		}
	}
}

// mirror adds the headers that a tools/call needs. If the server does not say which, it has to
// refuse a call without them.
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

// headerValue returns an argument as a header has it, and false if there is none.
func headerValue(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || strings.IndexByte("{[n", raw[0]) >= 0 {
		return "", false
	}
	if text, ok := jsonview.String(raw); ok {
		return text, true
	}
	// 7.0 and 7e0 are the integer 7. What is no integer is for the server to refuse.
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.FormatInt(int64(f), 10), true
	}
	return string(raw), true
}
