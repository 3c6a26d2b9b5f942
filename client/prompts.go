package client

import (
	"context"
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/content"
)

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
