package client

import (
	stdjson "encoding/json"

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

func parseResult(raw stdjson.RawMessage, limits Limits) (*Result, error) {
	wire := struct {
		Content           bounded[stdjson.RawMessage] `json:"content"`
		StructuredContent stdjson.RawMessage          `json:"structuredContent"`
		IsError           bool                        `json:"isError"`
	}{Content: bounded[stdjson.RawMessage]{max: limits.Items, what: "blocks in a result"}}
	if err := read(raw, &wire, "the server's tool result"); err != nil {
		return nil, err
	}
	if wire.Content.items == nil && wire.StructuredContent == nil {
		return nil, malformed("the server's result is neither a suspension nor a tool result")
	}
	result := &Result{StructuredContent: wire.StructuredContent, IsError: wire.IsError, Raw: raw}
	for _, data := range wire.Content.items {
		result.Content = append(result.Content, parseBlock(data))
	}
	return result, nil
}

func parseBlock(data stdjson.RawMessage) content.Block {
	block, err := content.ParseBlock(data)
	if err != nil {
		return content.Unknown{Raw: data}
	}
	return block
}
