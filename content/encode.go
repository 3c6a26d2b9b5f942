package content

import (
	stdjson "encoding/json"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Blocks is a list of content. Its zero value is an empty list and marshals to
// [], never to null: MCP requires the member that holds it.
type Blocks []Block

// Text returns the texts of all [Text] blocks, in order, joined by newlines.
// Other blocks are skipped.
func (b Blocks) Text() string {
	var texts []string
	for _, block := range b {
		switch t := block.(type) {
		case Text:
			texts = append(texts, t.Text)
		case *Text: // a natural slip
			if t != nil {
				texts = append(texts, t.Text)
			}
		}
	}
	return strings.Join(texts, "\n")
}

// AppendJSON appends the list's JSON array to dst. On error it returns dst as it
// was.
func (b Blocks) AppendJSON(dst []byte) ([]byte, error) {
	out := append(dst, '[')
	for i, block := range b {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendBlock(out, block); err != nil {
			return dst, err
		}
	}
	return append(out, ']'), nil
}

// AppendSampling appends the list to dst as the content of a sampling message: a
// list of one block as the block alone, any other as an array. Clients older
// than MCP 2025-11-25 know only the former. On error it returns dst as it was.
func (b Blocks) AppendSampling(dst []byte) ([]byte, error) {
	if len(b) != 1 {
		return b.AppendJSON(dst)
	}
	out, err := appendBlock(dst, b[0])
	if err != nil {
		return dst, err
	}
	return out, nil
}

// MarshalJSON implements encoding/json.Marshaler.
func (b Blocks) MarshalJSON() ([]byte, error) { return b.AppendJSON(nil) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It accepts an array; null
// is taken for an empty one, because some peers send it.
func (b *Blocks) UnmarshalJSON(data []byte) error {
	if !jsonview.Valid(data) {
		return &blockError{err: errNotJSON}
	}
	blocks, err := readBlocks(data)
	if err == nil {
		*b = blocks
	}
	return err
}

// UnmarshalSampling reads the content of a sampling message or result: an array of
// blocks or one block alone.
func (b *Blocks) UnmarshalSampling(data []byte) error {
	if jsontext.Value(data).Kind() != '{' {
		return b.UnmarshalJSON(data)
	}
	block, err := ParseBlock(data)
	if err == nil {
		*b = Blocks{block}
	}
	return err
}

// These are the blocks as their struct tags describe them, without the methods
// that would have the JSON library ask the block itself.
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
	Resource struct {
		URI      string             `json:"uri"`
		MIMEType string             `json:"mimeType,omitzero"`
		Blob     []byte             `json:"blob,omitzero"`
		Text     *string            `json:"text,omitzero"`
		Meta     stdjson.RawMessage `json:"_meta,omitzero"`
	} `json:"resource"`
	Annotations *Annotations       `json:"annotations,omitzero"`
	Meta        stdjson.RawMessage `json:"_meta,omitzero"`
}

// typed is a block with the member "type" first.
type typed[B any] struct {
	Type  string `json:"type"`
	Block B      `json:",embed"`
}

// lossy writes bytes that are not UTF-8 as U+FFFD: a tool that prints some other
// program's output should not fail for them.
var lossy = json.JoinOptions(jsontext.AllowInvalidUTF8(true))

func appendBlock(dst []byte, block Block) ([]byte, error) {
	switch b := block.(type) {
	case Text:
		if b.Annotations == nil && b.Meta == nil { // most blocks: by hand, in a fifth of the time
			dst, _ = jsontext.AppendQuote(append(dst, `{"type":"text","text":`...), b.Text)
			return append(dst, '}'), nil
		}
		return appendTyped(dst, typeText, plainText(b), b.Annotations, b.Meta)
	case Image:
		return appendTyped(dst, typeImage, plainImage(b), b.Annotations, b.Meta)
	case Audio:
		return appendTyped(dst, typeAudio, plainAudio(b), b.Annotations, b.Meta)
	case ResourceLink:
		return appendTyped(dst, typeResourceLink, plainResourceLink(b), b.Annotations, b.Meta)
	case EmbeddedResource:
		if err := checkObject(typeResource, "_meta", b.ContentsMeta); err != nil {
			return nil, err
		}
		r := plainResource{Annotations: b.Annotations, Meta: b.Meta}
		in := &r.Resource
		in.URI, in.MIMEType, in.Blob, in.Meta = b.URI, b.MIMEType, b.Blob, b.ContentsMeta
		if b.Blob == nil {
			in.Text = &b.Text
		}
		return appendTyped(dst, typeResource, r, b.Annotations, b.Meta)
	case ToolUse:
		if b.Input == nil {
			b.Input = []byte("{}")
		}
		if err := checkObject(typeToolUse, "input", b.Input); err != nil {
			return nil, err
		}
		return appendTyped(dst, typeToolUse, plainToolUse(b), nil, b.Meta)
	case ToolResult:
		if _, err := b.Content.AppendJSON(nil); err != nil {
			return nil, &blockError{typ: typeToolResult, member: "content", err: err}
		}
		if b.StructuredContent != nil && !jsontext.Value(b.StructuredContent).IsValid() {
			return nil, &blockError{typ: typeToolResult, member: "structuredContent", err: errNotJSON}
		}
		return appendTyped(dst, typeToolResult, plainToolResult(b), nil, b.Meta)
	case Unknown:
		if b.BlockType() == "" {
			return nil, &blockError{member: "type", err: errEmpty}
		}
		return jsontext.AppendFormat(dst, b.Raw)
	}
	if p := reflect.ValueOf(block); p.Kind() == reflect.Pointer && !p.IsNil() { // a natural slip, which works
		return appendBlock(dst, p.Elem().Interface().(Block))
	}
	return nil, &blockError{err: errNil}
}

// appendTyped writes a block whose parts of its own have been checked.
func appendTyped[B any](dst []byte, typ string, b B, a *Annotations, meta []byte) ([]byte, error) {
	// Written so that NaN fails as well.
	if a != nil && a.Priority != nil && !(*a.Priority >= 0 && *a.Priority <= 1) {
		return nil, &blockError{typ: typ, member: "annotations", err: errPriority}
	}
	if err := checkObject(typ, "_meta", meta); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(&typed[B]{typ, b}, lossy)
	if err != nil {
		return nil, &blockError{typ: typ, err: err}
	}
	return append(dst, raw...), nil
}

// checkObject reports that JSON made elsewhere, if there is any, is not an object.
func checkObject(typ, member string, raw []byte) error {
	switch v := jsontext.Value(raw); {
	case v == nil:
		return nil
	case v.Kind() != '{':
		return &blockError{typ: typ, member: member, err: errNotObject}
	case !v.IsValid():
		return &blockError{typ: typ, member: member, err: errNotJSON}
	}
	return nil
}

// The methods below let each block stand alone in a structure that is marshalled.

func unmarshal[B Block](data []byte, into *B) error {
	block, err := ParseBlock(data)
	if err != nil {
		return err
	}
	b, ok := block.(B)
	if !ok {
		return &blockError{typ: block.BlockType(), err: errOtherType}
	}
	*into = b
	return nil
}

// MarshalJSON implements encoding/json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) { return appendBlock(nil, t) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (t *Text) UnmarshalJSON(data []byte) error { return unmarshal(data, t) }

// MarshalJSON implements encoding/json.Marshaler.
func (i Image) MarshalJSON() ([]byte, error) { return appendBlock(nil, i) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (i *Image) UnmarshalJSON(data []byte) error { return unmarshal(data, i) }

// MarshalJSON implements encoding/json.Marshaler.
func (a Audio) MarshalJSON() ([]byte, error) { return appendBlock(nil, a) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (a *Audio) UnmarshalJSON(data []byte) error { return unmarshal(data, a) }

// MarshalJSON implements encoding/json.Marshaler.
func (r ResourceLink) MarshalJSON() ([]byte, error) { return appendBlock(nil, r) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (r *ResourceLink) UnmarshalJSON(data []byte) error { return unmarshal(data, r) }

// MarshalJSON implements encoding/json.Marshaler.
func (r EmbeddedResource) MarshalJSON() ([]byte, error) { return appendBlock(nil, r) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (r *EmbeddedResource) UnmarshalJSON(data []byte) error { return unmarshal(data, r) }

// MarshalJSON implements encoding/json.Marshaler.
func (t ToolUse) MarshalJSON() ([]byte, error) { return appendBlock(nil, t) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (t *ToolUse) UnmarshalJSON(data []byte) error { return unmarshal(data, t) }

// MarshalJSON implements encoding/json.Marshaler.
func (t ToolResult) MarshalJSON() ([]byte, error) { return appendBlock(nil, t) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (t *ToolResult) UnmarshalJSON(data []byte) error { return unmarshal(data, t) }

// MarshalJSON implements encoding/json.Marshaler.
func (u Unknown) MarshalJSON() ([]byte, error) { return appendBlock(nil, u) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (u *Unknown) UnmarshalJSON(data []byte) error { return unmarshal(data, u) }
