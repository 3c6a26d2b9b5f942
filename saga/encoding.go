package saga

import (
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Encoding turns a state into bytes and back. The default is JSON. It must read
// what earlier versions of it wrote, as long as there are tokens, and must not let
// the data choose the types that it decodes into.
//
// It may have a third method, UnmarshalStrict(data []byte, v any) error, which is
// Unmarshal but fails if data holds what v has no place for, such as a field that was
// renamed. States of the present revision are then read with it. Without it, what such
// a change loses goes unnoticed.
type Encoding interface {
	// Marshal encodes the state that v points to.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the state that v points to.
	Unmarshal(data []byte, v any) error
}

// strict is an [Encoding] with the third method.
type strict interface {
	UnmarshalStrict(data []byte, v any) error
}

// jsonEncoding encodes states as package encoding/json would, so that any type
// that authors know to work there works here, only faster.
type jsonEncoding struct{}

func (jsonEncoding) Marshal(v any) ([]byte, error) { return jsonv2.Marshal(v, schema.JSONOptions) }

func (jsonEncoding) Unmarshal(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, schema.JSONOptions)
}

func (jsonEncoding) UnmarshalStrict(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, schema.StrictJSONOptions)
}
