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

// Role says who speaks or who is meant: [User] or [Assistant].
type Role string

// The roles MCP knows.
const (
	// User is the person in front of the client.
	User Role = "user"
	// Assistant is the client's model.
	Assistant Role = "assistant"
)

// Annotations are hints about a block that a client may use to show, order or
// drop it. They are never to be relied on for security (MCP page "server/resources").
type Annotations struct {
	// Audience says who the block is meant for. Empty means not said.
	Audience []Role `json:"audience,omitempty"`
	// Priority says how much the block matters, from 0 (optional) to 1
	// (required). Nil means not said.
	Priority *float64 `json:"priority,omitzero"`
	// LastModified is when the content last changed, in ISO 8601, such as
	// "2026-07-28T15:00:58Z". Empty means not said.
	LastModified string `json:"lastModified,omitzero"`
}

// Icon is a picture that stands for a thing in a user interface.
type Icon struct {
	// Src is the picture's URI: https, or data with base64. MCP requires it.
	Src string `json:"src"`
	// MIMEType overrides the type the source claims, if not empty.
	MIMEType string `json:"mimeType,omitzero"`
	// Sizes are the sizes the picture suits, such as "48x48" or "any".
	Sizes []string `json:"sizes,omitempty"`
	// Theme is the background the picture is made for, "light" or "dark", or empty.
	Theme string `json:"theme,omitzero"`
}
