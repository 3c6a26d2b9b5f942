package server

import (
	"encoding/base64"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Parts of messages that are the same in all revisions of MCP.

// requestMethod is the MCP request that asks a step.
func requestMethod(k steps.Kind) string {
	switch k {
	case steps.Sampling:
		return "sampling/createMessage"
	case steps.Roots:
		return "roots/list"
	}
	return "elicitation/create"
}

// appendToolResult writes a CallToolResult.
func appendToolResult(b []byte, r *content.Result) ([]byte, error) {
	if r.StructuredContent != nil || r.Meta != nil {
		raw, err := marshal(r)
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

// appendContents writes a list of ResourceContents.
func appendContents(b []byte, contents []content.ResourceContents) []byte {
	b = append(b, '[')
	for i, c := range contents {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"uri":`...)
		b = appendString(b, c.URI)
		if c.MIMEType != "" {
			b = append(b, `,"mimeType":`...)
			b = appendString(b, c.MIMEType)
		}
		if c.Blob != nil {
			b = append(b, `,"blob":"`...)
			b = base64.StdEncoding.AppendEncode(b, c.Blob)
			b = append(b, '"', '}')
			continue
		}
		b = append(b, `,"text":`...)
		b = append(appendString(b, c.Text), '}')
	}
	return append(b, ']')
}
