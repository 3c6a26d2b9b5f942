package jsonview

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Valid reports whether v is one JSON value: in UTF-8, and without two members of one
// name in any object.
func Valid(v []byte) bool { return jsontext.Value(v).IsValid() }

// Canonical returns JSON in the form of RFC 8785, with jsontext's options for it. It
// fails if v is not JSON.
func Canonical(v []byte, options ...jsontext.Options) ([]byte, error) {
	c := jsontext.Value(bytes.Clone(v))
	err := c.Canonicalize(options...)
	return c, err
}
