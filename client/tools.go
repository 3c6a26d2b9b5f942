package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/paramheader"
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

// listed is a tool as lists have it, with what this client has to know of it.
type listed struct {
	Tool
	Execution struct {
		TaskSupport string `json:"taskSupport"` // in MCP 2025-11-25
	} `json:"execution"`
	mirrored []paramheader.Param
}

// takesKeys asks whether a first call of the tool can be repeated with its key; if it cannot be asked, not.
func (c *Client) takesKeys(ctx context.Context, name string) bool {
	c.known.Store(nil) // it may be another server by now
	tool := c.tool(ctx, name)
	return tool != nil && string(tool.Meta[keyMarker]) == "true"
}

// tool returns a tool from the server's list, for which it is asked once; nil if there is none.
func (c *Client) tool(ctx context.Context, name string) *listed {
	known := c.known.Load()
	if known == nil {
		limited, cancel := context.WithTimeout(ctx, c.options.RetryFor)
		defer cancel()
		if _, err := c.Tools(limited); err != nil {
			return nil
		}
		known = c.known.Load()
	}
	if known == nil {
		return nil
	}
	return (*known)[name]
}

// Tools lists the server's tools, all pages of them. Over HTTP those are left out whose
// schemas want headers (x-mcp-header) in a way that MCP 2026-07-28 does not allow.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	spoken, err := c.speak(ctx)
	if err != nil {
		return nil, err
	}
	all, err := list[listed](ctx, c, spoken.toolList, "tools/list", "tools")
	if err != nil {
		return nil, err
	}
	_, overHTTP := c.transport.(*HTTP)
	tools, known := make([]Tool, 0, len(all)), make(map[string]*listed, len(all))
	for _, t := range all {
		if overHTTP && spoken.toolList == stateless {
			if t.mirrored, err = paramheader.Find(t.InputSchema); err != nil {
				continue // it must not be called
			}
		}
		known[t.Name] = &t
		tools = append(tools, t.Tool)
	}
	c.known.Store(&known)
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
	// Raw is the whole result as it came, with whatever else the server put there, but with U+FFFD where a string is no Unicode.
	Raw json.RawMessage
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

// Prompt describes a prompt of the server. All texts are the server's.
type Prompt struct {
	Name        string           `json:"name"`                  // what [Client.GetPrompt] takes
	Title       string           `json:"title,omitempty"`       // a name to show, or empty
	Description string           `json:"description,omitempty"` // for the user
	Arguments   []PromptArgument `json:"arguments,omitempty"`   // what it takes
}

// PromptArgument describes an argument of a prompt.
type PromptArgument struct {
	Name        string `json:"name"`                  // its key among the arguments
	Title       string `json:"title,omitempty"`       // a name to show, or empty
	Description string `json:"description,omitempty"` // for the user
	Required    bool   `json:"required,omitempty"`    // it must be given
}

// PromptResult is what a prompt comes to: MCP's GetPromptResult. Its texts are the server's.
type PromptResult struct {
	Description string            // what the messages are for
	Messages    []content.Message // for a model; a block that breaks MCP's rules is a [content.Unknown]
	Raw         json.RawMessage   // the whole result as it came
}

// Prompts lists the server's prompts, all pages of them. The saga proposal has none, so
// this and the other methods for prompts and resources use MCP 2026-07-28 or older.
func (c *Client) Prompts(ctx context.Context) ([]Prompt, error) {
	return listFeatures[Prompt](ctx, c, "prompts/list", "prompts")
}

// GetPrompt gets a prompt's messages, and answers with handlers what the server asks
// on the way. A step that cannot be answered, or whose handler fails, ends the call
// with an [*Error]: this protocol knows no answers that are errors.
//
// Errors are always an [*InterruptedError], as those of [Client.Call]; continue with
// [Client.ResumePrompt].
func (c *Client) GetPrompt(ctx context.Context, name string, arguments map[string]string, handlers Handlers) (*PromptResult, error) {
	var given any
	if len(arguments) > 0 {
		given = arguments
	}
	return start(ctx, c, Position{Prompt: name}, given, handlers, parsePrompt)
}

// ResumePrompt continues to get a prompt; see [Client.Resume].
func (c *Client) ResumePrompt(ctx context.Context, position Position, handlers Handlers) (*PromptResult, error) {
	return resume(ctx, c, position, position.Prompt, handlers, parsePrompt)
}

func parsePrompt(raw json.RawMessage, limits Limits) (*PromptResult, error) {
	type message struct {
		Role    content.Role    `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	wire := struct {
		Description string           `json:"description"`
		Messages    bounded[message] `json:"messages"`
	}{Messages: bounded[message]{max: limits.Items, what: "messages in a prompt"}}
	if err := read(raw, &wire, "the server's prompt"); err != nil {
		return nil, err
	}
	if wire.Messages.items == nil {
		return nil, malformed("the server's result has no messages, so it is no prompt")
	}
	result := &PromptResult{Description: wire.Description, Raw: raw}
	for _, m := range wire.Messages.items {
		result.Messages = append(result.Messages, content.Message{Role: m.Role, Content: parseBlock(m.Content)})
	}
	return result, nil
}

// Resource describes a resource of the server. All texts are the server's.
type Resource struct {
	URI         string `json:"uri"`                   // what [Client.ReadResource] takes
	Name        string `json:"name"`                  // identifies it
	Title       string `json:"title,omitempty"`       // a name to show, or empty
	Description string `json:"description,omitempty"` // for the model and the user
	MIMEType    string `json:"mimeType,omitempty"`    // of its contents, or empty
	Size        *int64 `json:"size,omitempty"`        // in bytes; nil if the server does not say
}

// ResourceTemplate describes a family of resources. All texts are the server's.
type ResourceTemplate struct {
	URITemplate string `json:"uriTemplate"`           // RFC 6570: expand it, and read the URI
	Name        string `json:"name"`                  // identifies it
	Title       string `json:"title,omitempty"`       // a name to show, or empty
	Description string `json:"description,omitempty"` // for the model and the user
	MIMEType    string `json:"mimeType,omitempty"`    // if all have the same
}

// ResourceResult is what a resource holds: MCP's ReadResourceResult. Its texts are the server's.
type ResourceResult struct {
	// Contents are its parts. The server chooses their URIs: do not make the name of a file of one
	// without care.
	Contents []content.ResourceContents
	Raw      json.RawMessage // the whole result as it came
}

// Resources lists the server's resources, all pages of them.
func (c *Client) Resources(ctx context.Context) ([]Resource, error) {
	return listFeatures[Resource](ctx, c, "resources/list", "resources")
}

// ResourceTemplates lists the server's templates of resources, all pages of them.
func (c *Client) ResourceTemplates(ctx context.Context) ([]ResourceTemplate, error) {
	return listFeatures[ResourceTemplate](ctx, c, "resources/templates/list", "resourceTemplates")
}

// ReadResource reads the resource at uri, and answers with handlers what the server
// asks on the way. See [Client.GetPrompt] for its errors; continue with
// [Client.ResumeResource].
func (c *Client) ReadResource(ctx context.Context, uri string, handlers Handlers) (*ResourceResult, error) {
	return start(ctx, c, Position{URI: uri}, nil, handlers, parseRead)
}

// ResumeResource continues to read a resource; see [Client.Resume].
func (c *Client) ResumeResource(ctx context.Context, position Position, handlers Handlers) (*ResourceResult, error) {
	return resume(ctx, c, position, position.URI, handlers, parseRead)
}

func parseRead(raw json.RawMessage, limits Limits) (*ResourceResult, error) {
	type part struct {
		URI      string `json:"uri"`
		MIMEType string `json:"mimeType"`
		Text     string `json:"text"`
		Blob     []byte `json:"blob"`
	}
	wire := struct {
		Contents bounded[part] `json:"contents"`
	}{bounded[part]{max: limits.Items, what: "parts in a resource"}}
	if err := read(raw, &wire, "the server's resource"); err != nil {
		return nil, err
	}
	if wire.Contents.items == nil {
		return nil, malformed("the server's result has no contents, so it is no resource")
	}
	result := &ResourceResult{Raw: raw}
	for _, p := range wire.Contents.items {
		result.Contents = append(result.Contents, content.ResourceContents(p))
	}
	return result, nil
}

// sendTurn sends r with the headers that its tool wants, and once more if the server has come to want others.
func (c *Client) sendTurn(ctx context.Context, p *Position, r request) (json.RawMessage, error) {
	mirroring := c.mirror(ctx, p, r)
	raw, err := c.send(ctx, mirroring)
	if refused, ok := errors.AsType[*Error](err); !ok || refused.Code != codeHeaderMismatch {
		return raw, err
	}
	c.known.Store(nil)
	anew := c.mirror(ctx, p, r)
	if maps.Equal(anew.header, mirroring.header) {
		return raw, err
	}
	return c.send(ctx, anew)
}

// mirror returns r with the headers that a tools/call needs, as far as the server says which.
func (c *Client) mirror(ctx context.Context, p *Position, r request) request {
	if _, ok := c.transport.(*HTTP); !ok || r.method != "tools/call" || r.session {
		return r
	}
	tool := c.tool(ctx, p.Tool)
	if tool == nil {
		return r
	}
	r.header = maps.Clone(r.header)
	for _, m := range tool.mirrored {
		if value, ok := headerValue(jsonview.Get(p.Arguments, m.Path...)); ok {
			r.header[m.Header] = encodeHeader(value)
		}
	}
	return r
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
