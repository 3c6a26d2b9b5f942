package saga

import (
	"bytes"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Encoding turns a state into bytes and back. The default is JSON. It must read
// what earlier versions of it wrote, as long as there are tokens, and must not let
// the data choose the types that it decodes into.
type Encoding interface {
	// Marshal encodes the state that v points to.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the state that v points to.
	Unmarshal(data []byte, v any) error
}

// StrictEncoding is an [Encoding] that notices what a type has no place for, such as
// a field that was renamed. States of the present revision are read with it: what they
// have lost is then noticed, and not the state's upgrades' business. With an Encoding
// that is not strict and skips what it does not know, such a change goes unnoticed.
type StrictEncoding interface {
	Encoding
	// UnmarshalStrict is Unmarshal, but fails if data holds what v has no place for.
	UnmarshalStrict(data []byte, v any) error
}

// jsonEncoding encodes states as package encoding/json would, so that any type
// that authors know to work there works here, only faster.
type jsonEncoding struct{}

func (jsonEncoding) Marshal(v any) ([]byte, error) { return jsonv2.Marshal(v, engine.JSONOptions) }

func (jsonEncoding) Unmarshal(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, engine.JSONOptions)
}

func (jsonEncoding) UnmarshalStrict(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, engine.StrictJSONOptions)
}

// emptyState is what a state without fields encodes to; it is not kept.
var emptyState = []byte("{}")

func encodeState(e Encoding, v any) ([]byte, error) {
	b, err := e.Marshal(v)
	if err != nil || bytes.Equal(b, emptyState) {
		return nil, err
	}
	return b, nil
}
