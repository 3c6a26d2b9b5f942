// Package jsontest reads JSON in tests, by paths such as "result.content.0.text":
// names of members and indexes of elements, between dots. A dot in a name is
// written as `\.`. What is not there is an empty value, as a test compares it.
package jsontest

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Value is a value of a JSON text, or none.
type Value = gjson.Result

// Parse returns a whole text, of which it demands nothing.
func Parse[T ~string | ~[]byte](text T) Value { return gjson.Parse(strings.TrimSpace(string(text))) }

// Get returns a value of a text.
func Get[T ~string | ~[]byte](text T, path string) Value { return Parse(text).Get(path) }

// Valid reports whether a text is JSON.
func Valid[T ~string | ~[]byte](text T) bool { return jsonview.Valid([]byte(text)) }
