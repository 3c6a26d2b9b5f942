package content

import "github.com/go-json-experiment/json/jsontext"

// The methods below let each block stand alone in a structure that is marshalled
// by encoding/json or by github.com/go-json-experiment/json.

func marshalTo(enc *jsontext.Encoder, b Block) error {
	raw, err := appendBlock(enc.AvailableBuffer(), b)
	if err != nil {
		return err
	}
	return enc.WriteValue(raw)
}

func unmarshal[B Block](data []byte, into *B) error {
	block, err := ParseBlock(data)
	if err != nil {
		return err
	}
	b, ok := block.(B)
	if !ok {
		return &Error{Type: block.BlockType(), Err: errOtherType}
	}
	*into = b
	return nil
}

// MarshalJSON implements encoding/json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) { return appendBlock(nil, t) }

// MarshalJSONTo implements MarshalerTo of github.com/go-json-experiment/json.
func (t Text) MarshalJSONTo(enc *jsontext.Encoder) error { return marshalTo(enc, t) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses a block of
// another type.
func (t *Text) UnmarshalJSON(data []byte) error { return unmarshal(data, t) }

// MarshalJSON implements encoding/json.Marshaler.
func (i Image) MarshalJSON() ([]byte, error) { return appendBlock(nil, i) }

// MarshalJSONTo implements MarshalerTo of github.com/go-json-experiment/json.
func (i Image) MarshalJSONTo(enc *jsontext.Encoder) error { return marshalTo(enc, i) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses a block of
// another type.
func (i *Image) UnmarshalJSON(data []byte) error { return unmarshal(data, i) }

// MarshalJSON implements encoding/json.Marshaler.
func (a Audio) MarshalJSON() ([]byte, error) { return appendBlock(nil, a) }

// MarshalJSONTo implements MarshalerTo of github.com/go-json-experiment/json.
func (a Audio) MarshalJSONTo(enc *jsontext.Encoder) error { return marshalTo(enc, a) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses a block of
// another type.
func (a *Audio) UnmarshalJSON(data []byte) error { return unmarshal(data, a) }

// MarshalJSON implements encoding/json.Marshaler.
func (r ResourceLink) MarshalJSON() ([]byte, error) { return appendBlock(nil, r) }

// MarshalJSONTo implements MarshalerTo of github.com/go-json-experiment/json.
func (r ResourceLink) MarshalJSONTo(enc *jsontext.Encoder) error { return marshalTo(enc, r) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses a block of
// another type.
func (r *ResourceLink) UnmarshalJSON(data []byte) error { return unmarshal(data, r) }

// MarshalJSON implements encoding/json.Marshaler.
func (r Resource) MarshalJSON() ([]byte, error) { return appendBlock(nil, r) }

// MarshalJSONTo implements MarshalerTo of github.com/go-json-experiment/json.
func (r Resource) MarshalJSONTo(enc *jsontext.Encoder) error { return marshalTo(enc, r) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses a block of
// another type.
func (r *Resource) UnmarshalJSON(data []byte) error { return unmarshal(data, r) }

// MarshalJSON implements encoding/json.Marshaler.
func (t ToolUse) MarshalJSON() ([]byte, error) { return appendBlock(nil, t) }

// MarshalJSONTo implements MarshalerTo of github.com/go-json-experiment/json.
func (t ToolUse) MarshalJSONTo(enc *jsontext.Encoder) error { return marshalTo(enc, t) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses a block of
// another type.
func (t *ToolUse) UnmarshalJSON(data []byte) error { return unmarshal(data, t) }

// MarshalJSON implements encoding/json.Marshaler.
func (t ToolResult) MarshalJSON() ([]byte, error) { return appendBlock(nil, t) }

// MarshalJSONTo implements MarshalerTo of github.com/go-json-experiment/json.
func (t ToolResult) MarshalJSONTo(enc *jsontext.Encoder) error { return marshalTo(enc, t) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses a block of
// another type.
func (t *ToolResult) UnmarshalJSON(data []byte) error { return unmarshal(data, t) }

// MarshalJSON implements encoding/json.Marshaler.
func (u Unknown) MarshalJSON() ([]byte, error) { return appendBlock(nil, u) }

// MarshalJSONTo implements MarshalerTo of github.com/go-json-experiment/json.
func (u Unknown) MarshalJSONTo(enc *jsontext.Encoder) error { return marshalTo(enc, u) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses a block of
// another type.
func (u *Unknown) UnmarshalJSON(data []byte) error { return unmarshal(data, u) }
