package client

import (
	stdjson "encoding/json"

	"github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/content"
)

// Result is what a tool returned in the end: MCP's CallToolResult. Its texts are
// the server's: do not trust them, and strip control sequences before a terminal
// shows them.
type Result struct {
	// Content is what the tool has to say. A block that breaks MCP's rules is kept
	// as a [content.Unknown]: the tool has run, and its result is not thrown away.
	Content content.Blocks
	// StructuredContent is the result as JSON, or nil.
	StructuredContent stdjson.RawMessage
	// IsError says that the tool ran and failed.
	IsError bool
	// Raw is the whole result as it came, with whatever else the server put there.
	Raw stdjson.RawMessage
}

func parseResult(raw stdjson.RawMessage) (*Result, error) {
	var wire struct {
		Content           *[]stdjson.RawMessage `json:"content"`
		StructuredContent stdjson.RawMessage    `json:"structuredContent"`
		IsError           bool                  `json:"isError"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return nil, &ProtocolError{Reason: "the server's tool result is malformed", Err: err}
	}
	if wire.Content == nil && wire.StructuredContent == nil {
		return nil, malformed("the server's result is neither a suspension nor a tool result")
	}
	result := &Result{StructuredContent: wire.StructuredContent, IsError: wire.IsError, Raw: raw}
	if wire.Content != nil {
		for _, data := range *wire.Content {
			block, err := content.ParseBlock(data)
			if err != nil {
				block = content.Unknown{Raw: data}
			}
			result.Content = append(result.Content, block)
		}
	}
	return result, nil
}
