package content

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
		case *Text:
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
	return appendBlock(dst, b[0])
}

// MarshalJSON implements encoding/json.Marshaler.
func (b Blocks) MarshalJSON() ([]byte, error) { return b.AppendJSON(nil) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It accepts an array; null
// is taken for an empty one, because some peers send it.
func (b *Blocks) UnmarshalJSON(data []byte) error {
	if !jsontext.Value(data).IsValid() {
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

// lossy writes bytes that are not UTF-8 as U+FFFD: a tool that prints the output of
// another program should not fail for them.
var lossy = jsontext.AllowInvalidUTF8(true)

// appendBlock returns dst as it was if it fails.
func appendBlock(dst []byte, block Block) ([]byte, error) {
	if p := reflect.ValueOf(block); block == nil || p.Kind() == reflect.Pointer && p.IsNil() {
		return dst, &blockError{err: errNil}
	}
	if t, ok := block.(Text); ok && t.Annotations == nil && t.Meta == nil { // most blocks: in a fifth of the time
		dst, _ = jsontext.AppendQuote(append(dst, `{"type":"text","text":`...), t.Text)
		return append(dst, '}'), nil
	}
	typ, wire := block.BlockType(), block.wire()
	if typ == "" {
		return dst, &blockError{member: "type", err: errEmpty}
	}
	if raw, unknown := wire.(jsontext.Value); unknown {
		return jsontext.AppendFormat(dst, raw)
	}
	raw, err := json.Marshal(wire, lossy)
	if err != nil {
		return dst, misfit(typ, err)
	}
	if err := check(typ, raw, false); err != nil {
		return dst, err
	}
	dst = append(append(dst, `{"type":"`...), typ...)
	return append(append(dst, `",`...), raw[1:]...), nil
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
