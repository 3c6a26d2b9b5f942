package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"

	"github.com/mcpsaga/mcpsaga/content"
)

// Tool describes a tool of the server. All texts are the server's.
type Tool struct {
	Name         string                     `json:"name"`                   // what [Client.Call] takes
	Title        string                     `json:"title,omitempty"`        // a name to show, or empty
	Description  string                     `json:"description,omitempty"`  // for the model and the user
	InputSchema  json.RawMessage            `json:"inputSchema"`            // JSON schema of the arguments
	OutputSchema json.RawMessage            `json:"outputSchema,omitempty"` // JSON schema of the structured result, or nil
	Meta         map[string]json.RawMessage `json:"_meta,omitempty"`        // by namespaced key; a server marks its sagas here
}

// sagaMarker is the key in a tool's _meta that says how to call it.
const sagaMarker = "io.github.mcpsaga/saga"

// IsSaga reports whether the server says that the tool may ask the client for
// something before it has a result. Servers of this module say so; those on other
// libraries do not, and may ask nevertheless.
func (t *Tool) IsSaga() bool {
	_, marked := t.Meta[sagaMarker]
	return marked
}

// keyMarker is the key in a tool's _meta that says that its first call can be repeated.
const keyMarker = "io.github.mcpsaga/idempotencyKey"

// takesKeys asks the server whether a first call of the tool can be repeated with its key.
// If it cannot be asked, it does not.
func (c *Client) takesKeys(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, c.options.RetryFor)
	defer cancel()
	tool := c.tool(ctx, name)
	return tool != nil && string(tool.Meta[keyMarker]) == "true"
}

// tool returns a tool from the server's list, or nil.
func (c *Client) tool(ctx context.Context, name string) *Tool {
	tools, _ := c.Tools(ctx)
	for _, tool := range tools {
		if tool.Name == name {
			return &tool
		}
	}
	return nil
}

// Tools lists the server's tools, all pages of them. Over HTTP those are left out whose
// schemas want headers (x-mcp-header) in a way that MCP 2026-07-28 does not allow.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	spoken, err := c.speak(ctx)
	if err != nil {
		return nil, err
	}
	tools, err := list[Tool](ctx, c, spoken.toolList, "tools/list", "tools")
	if _, overHTTP := c.transport.(*HTTP); err != nil || !overHTTP || spoken.toolList != stateless {
		return tools, err
	}
	known := toolHeaders{}
	tools = slices.DeleteFunc(tools, func(t Tool) bool {
		m := mirrors{names: map[string]bool{}}
		m.look(t.InputSchema, []string{}, 0)
		known[t.Name] = m.found
		return m.wrong
	})
	c.headers.Store(&known)
	return tools, nil
}

// Call calls a tool and answers its steps with handlers until it returns a
// result. Arguments are anything that encodes to a JSON object, or nil.
//
// A tool that failed by its own account is a result with IsError set. Errors are
// always an [*InterruptedError]; its Err says why, its Position where.
func (c *Client) Call(ctx context.Context, tool string, arguments any, handlers Handlers) (*Result, error) {
	return start(ctx, c, Position{Tool: tool, Key: rand.Text()}, arguments, handlers, parseResult)
}

// Resume continues the call of a tool from position, which may have been made by
// another process, and on another connection. See [Client.Call] for what it returns.
func (c *Client) Resume(ctx context.Context, position Position, handlers Handlers) (*Result, error) {
	return resume(ctx, c, position, cmp.Or(position.Tool, position.Task), handlers, parseResult)
}

// Result is what a tool returned in the end: MCP's CallToolResult. Its texts are the server's.
type Result struct {
	// Content is what the tool says. A block that breaks MCP's rules is kept as a
	// [content.Unknown]: the tool has run, and its result is not thrown away.
	Content           content.Blocks
	StructuredContent json.RawMessage // the result as JSON, or nil
	IsError           bool            // the tool ran and failed
	Raw               json.RawMessage // the whole result as it came, with whatever else the server put there
}

func parseResult(raw json.RawMessage, limits Limits) (*Result, error) {
	wire := struct {
		Content           bounded[json.RawMessage] `json:"content"`
		StructuredContent json.RawMessage          `json:"structuredContent"`
		IsError           bool                     `json:"isError"`
	}{Content: limits.blocks()}
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

func parseBlock(data json.RawMessage) content.Block {
	block, err := content.ParseBlock(data)
	if err != nil {
		return content.Unknown{Raw: data}
	}
	return block
}
