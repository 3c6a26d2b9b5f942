package client

import (
	"context"
	stdjson "encoding/json"

	"github.com/mcpsaga/mcpsaga/content"
)

// Resource describes a resource of the server. All texts are the server's.
type Resource struct {
	// URI is what [Client.ReadResource] takes.
	URI string `json:"uri"`
	// Name identifies the resource.
	Name string `json:"name"`
	// Title is a name to show, or empty.
	Title string `json:"title,omitempty"`
	// Description is for the model and the user.
	Description string `json:"description,omitempty"`
	// MIMEType is the type of its contents, or empty.
	MIMEType string `json:"mimeType,omitempty"`
	// Size is the size of its contents in bytes, or nil.
	Size *int64 `json:"size,omitempty"`
}

// ResourceTemplate describes a family of resources. All texts are the server's.
type ResourceTemplate struct {
	// URITemplate is a URI template (RFC 6570): expand it, and read the URI.
	URITemplate string `json:"uriTemplate"`
	// Name identifies the template.
	Name string `json:"name"`
	// Title is a name to show, or empty.
	Title string `json:"title,omitempty"`
	// Description is for the model and the user.
	Description string `json:"description,omitempty"`
	// MIMEType is the type of the contents, if all have the same.
	MIMEType string `json:"mimeType,omitempty"`
}

// ReadResult is what a resource holds: MCP's ReadResourceResult. Its texts are the
// server's: do not trust them, and strip control sequences before a terminal shows
// them.
type ReadResult struct {
	// Contents are its parts. Their URIs are the server's word: do not make the name of
	// a file of one without care.
	Contents []content.ResourceContents
	// Raw is the whole result as it came.
	Raw stdjson.RawMessage
}

// Resources lists the server's resources, all pages of them.
func (c *Client) Resources(ctx context.Context) ([]Resource, error) {
	return orNone(list[Resource](ctx, c, c.features, "resources/list", "resources"))
}

// ResourceTemplates lists the server's templates of resources, all pages of them.
func (c *Client) ResourceTemplates(ctx context.Context) ([]ResourceTemplate, error) {
	return orNone(list[ResourceTemplate](ctx, c, c.features, "resources/templates/list", "resourceTemplates"))
}

// ReadResource reads the resource at uri, and answers with handlers what the server
// asks on the way. See [Client.GetPrompt] for its errors; go on with
// [Client.ResumeRead].
func (c *Client) ReadResource(ctx context.Context, uri string, handlers Handlers) (*ReadResult, error) {
	position := begin(c.features)
	position.URI = uri
	if uri == "" {
		return nil, &Interrupted{Position: position, Err: positionError("it has no URI")}
	}
	return drive(ctx, c, position, handlers, parseRead)
}

// ResumeRead goes on with reading a resource; see [Client.Resume].
func (c *Client) ResumeRead(ctx context.Context, position Position, handlers Handlers) (*ReadResult, error) {
	return resume(ctx, c, position, position.URI, handlers, parseRead)
}

func parseRead(raw stdjson.RawMessage, limits Limits) (*ReadResult, error) {
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
	result := &ReadResult{Raw: raw}
	for _, p := range wire.Contents.items {
		result.Contents = append(result.Contents, content.ResourceContents(p))
	}
	return result, nil
}
