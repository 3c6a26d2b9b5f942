package content

import (
	stdjson "encoding/json"
	"errors"
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
		if t, ok := value(block).(Text); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// value returns what a pointer to a block leads to: a natural slip, which works.
func value(block Block) Block {
	p := reflect.ValueOf(block)
	switch {
	case p.Kind() != reflect.Pointer:
		return block
	case p.IsNil():
		return nil
	}
	return p.Elem().Interface().(Block)
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
	Resource    resourceContents   `json:"resource"`
	Annotations *Annotations       `json:"annotations,omitzero"`
	Meta        stdjson.RawMessage `json:"_meta,omitzero"`
}

type resourceContents struct {
	URI      string             `json:"uri"`
	MIMEType string             `json:"mimeType,omitzero"`
	Blob     []byte             `json:"blob,omitzero"`
	Text     *string            `json:"text,omitzero"`
	Meta     stdjson.RawMessage `json:"_meta,omitzero"`
}

// lossy writes bytes that are not UTF-8 as U+FFFD: a tool that prints the output of
// another program should not fail for them.
var lossy = json.JoinOptions(jsontext.AllowInvalidUTF8(true))

func appendBlock(dst []byte, block Block) ([]byte, error) {
	block = value(block)
	var plain any
	switch b := block.(type) {
	case Text:
		if b.Annotations == nil && b.Meta == nil { // most blocks: by hand, in a fifth of the time
			dst, _ = jsontext.AppendQuote(append(dst, `{"type":"text","text":`...), b.Text)
			return append(dst, '}'), nil
		}
		plain = plainText(b)
	case Image:
		plain = plainImage(b)
	case Audio:
		plain = plainAudio(b)
	case ResourceLink:
		plain = plainResourceLink(b)
	case EmbeddedResource:
		r := resourceContents{URI: b.URI, MIMEType: b.MIMEType, Blob: b.Blob, Meta: b.ContentsMeta}
		if b.Blob == nil {
			r.Text = &b.Text
		}
		plain = plainResource{r, b.Annotations, b.Meta}
	case ToolUse:
		if b.Input == nil {
			b.Input = []byte("{}")
		}
		plain = plainToolUse(b)
	case ToolResult:
		plain = plainToolResult(b)
	case Unknown:
		if b.BlockType() == "" {
			return nil, &blockError{member: "type", err: errEmpty}
		}
		return jsontext.AppendFormat(dst, b.Raw)
	case nil:
		return nil, &blockError{err: errNil}
	}
	if err := check(block); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(plain, lossy)
	if inner, ok := errors.AsType[*blockError](err); ok {
		return nil, &blockError{typ: block.BlockType(), member: "content", err: inner}
	} else if err != nil {
		return nil, &blockError{typ: block.BlockType(), err: err}
	}
	dst = append(append(dst, `{"type":"`...), block.BlockType()...)
	return append(append(dst, `",`...), raw[1:]...), nil
}

// check reports what struct tags cannot say of a block, whether it was read or is to be
// written: that JSON made elsewhere is what MCP demands, and that a priority is one.
func check(block Block) error {
	annotations, meta := block.hints()
	// Written so that NaN fails as well.
	if annotations != nil && annotations.Priority != nil && !(*annotations.Priority >= 0 && *annotations.Priority <= 1) {
		return &blockError{block.BlockType(), "annotations", errPriority}
	}
	objects := map[string]jsontext.Value{"_meta": jsontext.Value(meta)}
	switch b := block.(type) {
	case EmbeddedResource:
		objects["resource._meta"] = jsontext.Value(b.ContentsMeta)
	case ToolUse:
		objects["input"] = jsontext.Value(b.Input)
	case ToolResult:
		if b.StructuredContent != nil && !jsontext.Value(b.StructuredContent).IsValid() {
			return &blockError{typeToolResult, "structuredContent", errNotJSON}
		}
	}
	for member, v := range objects {
		switch {
		case v == nil:
		case v.Kind() != '{':
			return &blockError{block.BlockType(), member, errNotObject}
		case !v.IsValid():
			return &blockError{block.BlockType(), member, errNotJSON}
		}
	}
	return nil
}

// MarshalJSON implements encoding/json.Marshaler.
func (b Text) MarshalJSON() ([]byte, error) { return appendBlock(nil, b) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (b *Text) UnmarshalJSON(data []byte) error { return unmarshal(data, b) }

// MarshalJSON implements encoding/json.Marshaler.
func (b Image) MarshalJSON() ([]byte, error) { return appendBlock(nil, b) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (b *Image) UnmarshalJSON(data []byte) error { return unmarshal(data, b) }

// MarshalJSON implements encoding/json.Marshaler.
func (b Audio) MarshalJSON() ([]byte, error) { return appendBlock(nil, b) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (b *Audio) UnmarshalJSON(data []byte) error { return unmarshal(data, b) }

// MarshalJSON implements encoding/json.Marshaler.
func (b ResourceLink) MarshalJSON() ([]byte, error) { return appendBlock(nil, b) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (b *ResourceLink) UnmarshalJSON(data []byte) error { return unmarshal(data, b) }

// MarshalJSON implements encoding/json.Marshaler.
func (b EmbeddedResource) MarshalJSON() ([]byte, error) { return appendBlock(nil, b) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (b *EmbeddedResource) UnmarshalJSON(data []byte) error { return unmarshal(data, b) }

// MarshalJSON implements encoding/json.Marshaler.
func (b ToolUse) MarshalJSON() ([]byte, error) { return appendBlock(nil, b) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (b *ToolUse) UnmarshalJSON(data []byte) error { return unmarshal(data, b) }

// MarshalJSON implements encoding/json.Marshaler.
func (b ToolResult) MarshalJSON() ([]byte, error) { return appendBlock(nil, b) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (b *ToolResult) UnmarshalJSON(data []byte) error { return unmarshal(data, b) }

// MarshalJSON implements encoding/json.Marshaler.
func (b Unknown) MarshalJSON() ([]byte, error) { return appendBlock(nil, b) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (b *Unknown) UnmarshalJSON(data []byte) error { return unmarshal(data, b) }

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
