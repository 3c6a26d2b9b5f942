package dialect

import (
	"encoding/base64"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Parts of messages that are the same in all revisions of MCP.

// RequestMethod is the MCP request that asks a step.
func RequestMethod(k steps.Kind) string {
	switch k {
	case steps.Sampling:
		return "sampling/createMessage"
	case steps.Roots:
		return "roots/list"
	}
	return "elicitation/create"
}

// AppendToolResult writes a CallToolResult.
func AppendToolResult(b []byte, r *content.Result) ([]byte, error) {
	if r.StructuredContent != nil || r.Meta != nil {
		raw, err := wire.Marshal(r)
		return append(b, raw...), err
	}
	// By hand, which takes a tenth of the time, what most results consist of.
	b, err := r.Content.AppendJSON(append(b, `{"content":`...))
	if err != nil {
		return nil, err
	}
	if r.IsError {
		b = append(b, `,"isError":true`...)
	}
	return append(b, '}'), nil
}

// AppendContents writes a list of ResourceContents.
func AppendContents(b []byte, contents []content.ResourceContents) []byte {
	b = append(b, '[')
	for i, c := range contents {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"uri":`...)
		b = wire.AppendString(b, c.URI)
		if c.MIMEType != "" {
			b = append(b, `,"mimeType":`...)
			b = wire.AppendString(b, c.MIMEType)
		}
		if c.Blob != nil {
			b = append(b, `,"blob":"`...)
			b = base64.StdEncoding.AppendEncode(b, c.Blob)
			b = append(b, '"', '}')
			continue
		}
		b = append(b, `,"text":`...)
		b = append(wire.AppendString(b, c.Text), '}')
	}
	return append(b, ']')
}
