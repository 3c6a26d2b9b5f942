package content

// The methods below let each block stand alone in a structure that is marshalled.

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
func (r Resource) MarshalJSON() ([]byte, error) { return appendBlock(nil, r) }

// UnmarshalJSON implements encoding/json.Unmarshaler. It refuses other blocks.
func (r *Resource) UnmarshalJSON(data []byte) error { return unmarshal(data, r) }

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
