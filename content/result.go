package content

import (
	"encoding/json"
	"fmt"
)

// Result is what a tool returns in the end: MCP's CallToolResult.
type Result struct {
	// Content is what the model and the user read. It may be empty.
	Content Blocks `json:"content"`
	// StructuredContent is the result as JSON, for programs. It must fit the
	// tool's output schema if there is one.
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	// IsError says that the tool failed in a way the model can read about in
	// Content and act upon.
	IsError bool `json:"isError,omitzero"`
	// Meta is MCP's _meta: anything else, by namespaced key.
	Meta map[string]any `json:"_meta,omitzero"`
}

// Resultf is a result with one block of text. Without arguments the text stays as it
// is, so that a stray % in it is no verb.
func Resultf(format string, args ...any) *Result {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	return &Result{Content: Blocks{Text{Text: text}}}
}

// Message is a message of a prompt: MCP's PromptMessage.
type Message struct {
	// Role is who speaks.
	Role Role `json:"role"`
	// Content is what is said.
	Content Block `json:"content"`
}

// ResourceContents is a part of what a resource contains: MCP's ResourceContents.
// Either Text or Blob is set.
type ResourceContents struct {
	// URI is the address of this part.
	URI string
	// MIMEType is its type, or empty.
	MIMEType string
	// Text is the part if it is text.
	Text string
	// Blob is the part if it is not.
	Blob []byte
}
