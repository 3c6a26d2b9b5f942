package content

import (
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Block is one piece of content. Its concrete types are those of this package,
// and only those: switch over the values (content.Text, not *content.Text),
// which is what unmarshalling produces.
type Block interface {
	// BlockType returns the value of the member "type", such as "text".
	BlockType() string

	// wire returns what is marshalled besides the type. It keeps other types from being blocks.
	wire() any
}

// Text is text, for the model or the user.
type Text struct {
	// Text is the text itself. Bytes that are not UTF-8 are sent as U+FFFD.
	Text string `json:"text"`
	// Annotations are hints for the client, or nil.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta is the member "_meta", a JSON object, or nil.
	Meta json.RawMessage `json:"_meta,omitzero"`
}

// Textf returns a [Text] formatted as by [fmt.Sprintf].
func Textf(format string, args ...any) Text {
	return Text{Text: fmt.Sprintf(format, args...)}
}

// Image is a picture.
type Image struct {
	// Data is the encoded picture, such as the bytes of a PNG file. It travels as
	// standard base64.
	Data []byte `json:"data"`
	// MIMEType says what Data is, such as "image/png". MCP requires it.
	MIMEType string `json:"mimeType"`
	// Annotations are hints for the client, or nil.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta is the member "_meta", a JSON object, or nil.
	Meta json.RawMessage `json:"_meta,omitzero"`
}

// Audio is a sound.
type Audio struct {
	// Data is the encoded sound, such as the bytes of a WAV file. It travels as
	// standard base64.
	Data []byte `json:"data"`
	// MIMEType says what Data is, such as "audio/wav". MCP requires it.
	MIMEType string `json:"mimeType"`
	// Annotations are hints for the client, or nil.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta is the member "_meta", a JSON object, or nil.
	Meta json.RawMessage `json:"_meta,omitzero"`
}

// ResourceLink points at a resource that the client can read if it wants to.
type ResourceLink struct {
	// URI identifies the resource. MCP requires it.
	URI string `json:"uri"`
	// Name is the resource's name, for programs. MCP requires it.
	Name string `json:"name"`
	// Title is the resource's name for people, or empty.
	Title string `json:"title,omitzero"`
	// Description says what the resource is, for the model, or is empty.
	Description string `json:"description,omitzero"`
	// MIMEType says what the resource holds, or is empty.
	MIMEType string `json:"mimeType,omitzero"`
	// Size is the resource's size in bytes before any encoding, or nil if unknown.
	Size *int64 `json:"size,omitzero"`
	// Icons are pictures for the resource, of which the client chooses.
	Icons []Icon `json:"icons,omitempty"`
	// Annotations are hints for the client, or nil.
	Annotations *Annotations `json:"annotations,omitzero"`
	// Meta is the member "_meta", a JSON object, or nil.
	Meta json.RawMessage `json:"_meta,omitzero"`
}

// EmbeddedResource is a resource embedded in the content: either text or bytes.
type EmbeddedResource struct {
	// URI identifies the resource. MCP requires it.
	URI string
	// MIMEType says what the resource holds, or is empty.
	MIMEType string
	// Text is the resource's text, if Blob is nil.
	Text string
	// Blob is the resource's bytes if it is not text; it then travels as standard
	// base64. A blob of no bytes is not nil.
	Blob []byte
	// ContentsMeta is the member "_meta" of the resource, a JSON object, or nil.
	ContentsMeta json.RawMessage
	// Annotations are hints for the client, or nil.
	Annotations *Annotations
	// Meta is the member "_meta" of the block, a JSON object, or nil.
	Meta json.RawMessage
}

// ToolUse is a model's request to use a tool. It appears only in sampling
// (MCP page "client/sampling").
type ToolUse struct {
	// ID correlates the [ToolResult] with this request.
	ID string `json:"id"`
	// Name is the tool's name.
	Name string `json:"name"`
	// Input is the tool's arguments, a JSON object. Nil stands for {}.
	Input json.RawMessage `json:"input"`
	// Meta is the member "_meta", a JSON object, or nil.
	Meta json.RawMessage `json:"_meta,omitzero"`
}

// ToolResult is what a tool returned for a [ToolUse]. It appears only in sampling
// (MCP page "client/sampling").
type ToolResult struct {
	// ToolUseID is the ID of the [ToolUse] that is answered.
	ToolUseID string `json:"toolUseId"`
	// Content is the unstructured result.
	Content Blocks `json:"content"`
	// StructuredContent is the structured result, any JSON value, or nil.
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	// IsError reports that the tool failed; Content says how.
	IsError bool `json:"isError,omitzero"`
	// Meta is the member "_meta", a JSON object, or nil.
	Meta json.RawMessage `json:"_meta,omitzero"`
}

// Unknown is a block of a type that this package does not know. It is kept as it
// came.
type Unknown struct {
	// Raw is the whole block, a JSON object with a member "type".
	Raw json.RawMessage
}

// The values of the member "type".
const (
	typeText         = "text"
	typeImage        = "image"
	typeAudio        = "audio"
	typeResourceLink = "resource_link"
	typeResource     = "resource"
	typeToolUse      = "tool_use"
	typeToolResult   = "tool_result"
)

// BlockType returns "text".
func (Text) BlockType() string { return typeText }

// BlockType returns "image".
func (Image) BlockType() string { return typeImage }

// BlockType returns "audio".
func (Audio) BlockType() string { return typeAudio }

// BlockType returns "resource_link".
func (ResourceLink) BlockType() string { return typeResourceLink }

// BlockType returns "resource".
func (EmbeddedResource) BlockType() string { return typeResource }

// BlockType returns "tool_use".
func (ToolUse) BlockType() string { return typeToolUse }

// BlockType returns "tool_result".
func (ToolResult) BlockType() string { return typeToolResult }

// BlockType returns the member "type" of Raw, or "" if it has none.
func (u Unknown) BlockType() string {
	if !jsontext.Value(u.Raw).IsValid() {
		return ""
	}
	typ, _ := jsonview.String(jsonview.Get(u.Raw, "type"))
	return typ
}

// These are the blocks as their struct tags describe them, without the methods that
// would have the JSON library ask the block itself.
type (
	plainText         Text
	plainImage        Image
	plainAudio        Audio
	plainResourceLink ResourceLink
	plainToolUse      ToolUse
	plainToolResult   ToolResult
)

// plainResource is an [EmbeddedResource] as it travels: an object within the block.
type plainResource struct {
	Resource    resourceContents `json:"resource"`
	Annotations *Annotations     `json:"annotations,omitzero"`
	Meta        json.RawMessage  `json:"_meta,omitzero"`
}

type resourceContents struct {
	URI      string          `json:"uri"`
	MIMEType string          `json:"mimeType,omitzero"`
	Blob     []byte          `json:"blob,omitzero"`
	Text     *string         `json:"text,omitzero"`
	Meta     json.RawMessage `json:"_meta,omitzero"`
}

func (t Text) wire() any         { return plainText(t) }
func (i Image) wire() any        { return plainImage(i) }
func (a Audio) wire() any        { return plainAudio(a) }
func (r ResourceLink) wire() any { return plainResourceLink(r) }
func (t ToolResult) wire() any   { return plainToolResult(t) }
func (u Unknown) wire() any      { return jsontext.Value(u.Raw) }

func (t ToolUse) wire() any {
	if t.Input == nil {
		t.Input = []byte("{}")
	}
	return plainToolUse(t)
}

func (r EmbeddedResource) wire() any {
	contents := resourceContents{URI: r.URI, MIMEType: r.MIMEType, Blob: r.Blob, Meta: r.ContentsMeta}
	if r.Blob == nil {
		contents.Text = &r.Text
	}
	return plainResource{contents, r.Annotations, r.Meta}
}
