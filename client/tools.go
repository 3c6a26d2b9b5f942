package client

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"fmt"
)

// Tool describes a tool of the server. All texts are the server's.
type Tool struct {
	// Name is what [Client.Call] takes.
	Name string `json:"name"`
	// Title is a name to show, or empty.
	Title string `json:"title,omitempty"`
	// Description is for the model and the user.
	Description string `json:"description,omitempty"`
	// InputSchema is the JSON schema of the arguments.
	InputSchema stdjson.RawMessage `json:"inputSchema"`
	// OutputSchema is the JSON schema of the structured result, or nil.
	OutputSchema stdjson.RawMessage `json:"outputSchema,omitempty"`
	// Meta is MCP's _meta, by namespaced key. A server marks its sagas there.
	Meta map[string]stdjson.RawMessage `json:"_meta,omitempty"`
}

// sagaMarker is the key in a tool's _meta that says how to call it.
const sagaMarker = "io.github.mcpsaga/saga"

// IsSaga reports whether the server says that the tool may ask the client for
// something before it has a result. [Client.Call] is for these.
func (t *Tool) IsSaga() bool {
	_, marked := t.Meta[sagaMarker]
	return marked
}

// Tools lists the server's tools, all pages of them.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	return list[Tool](ctx, c, c.tools, "tools/list", "tools")
}

// Call calls a tool and answers its steps with handlers until it returns a
// result. Arguments are anything that encodes to a JSON object, or nil.
//
// A tool that failed by its own account is a result with IsError set. Errors are
// always an [*Interrupted]; its Err tells why, its Position where.
func (c *Client) Call(ctx context.Context, tool string, arguments any, handlers Handlers) (*Result, error) {
	position := begin(c.tools)
	position.Tool = tool
	raw, err := encodeArguments(arguments)
	if err != nil {
		return nil, &Interrupted{Position: position, Err: err}
	}
	position.Arguments = raw
	return drive(ctx, c, position, handlers, parseResult)
}

// Resume goes on with the call of a tool from position, which may have been made by
// another process, and on another connection. See [Client.Call] for what it returns.
func (c *Client) Resume(ctx context.Context, position Position, handlers Handlers) (*Result, error) {
	return resume(ctx, c, position, position.Tool, handlers, parseResult)
}

func encodeArguments(arguments any) (stdjson.RawMessage, error) {
	if arguments == nil {
		return nil, nil
	}
	raw, err := stdjson.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("the arguments do not encode as JSON: %w", err)
	}
	if bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	if !bytes.HasPrefix(raw, []byte("{")) {
		return nil, fmt.Errorf("the arguments of a tool must be a JSON object, not %s", raw)
	}
	return raw, nil
}
