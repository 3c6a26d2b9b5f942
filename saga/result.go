package saga

import (
	"encoding/json"
	"fmt"

	"github.com/mcpsaga/mcpsaga/content"
)

// Result is what a tool returns in the end: MCP's CallToolResult.
type Result struct {
	// Content is what the model and the user read. It may be empty.
	Content content.Blocks `json:"content"`
	// StructuredContent is the result as JSON, for programs. It must fit the
	// tool's output schema if there is one.
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	// IsError says that the tool failed in a way the model can read about in
	// Content and act upon.
	IsError bool `json:"isError,omitzero"`
	// Meta is MCP's _meta: anything else, by namespaced key.
	Meta map[string]any `json:"_meta,omitzero"`
}

// TextResult is a result with one block of text.
func TextResult(format string, args ...any) *Result {
	return &Result{Content: content.Blocks{content.Text{Text: sprintf(format, args)}}}
}

func errorResult(text string) *Result {
	return &Result{Content: content.Blocks{content.Text{Text: text}}, IsError: true}
}

// sprintf leaves a text without arguments alone, so that a stray % is no verb.
func sprintf(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}
