// Package jsontest reads JSON in tests, by paths such as "result.content.0.text":
// names of members and indexes of elements, between dots. A dot in a name is
// written as `\.`. What is not there is an empty value, as a test compares it.
package jsontest

import (
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Value is a value of a JSON text, or none.
type Value struct {
	// Raw is how it is written.
	Raw string
}

// Parse returns a whole text, of which it demands nothing.
func Parse[T ~string | ~[]byte](text T) Value { return Value{strings.TrimSpace(string(text))} }

// Get returns a value of a text.
func Get[T ~string | ~[]byte](text T, path string) Value { return Parse(text).Get(path) }

// Get returns a value within an object or array. There is none in a text that is not JSON.
func (v Value) Get(path string) Value {
	const dot = "\x00"
	if !jsontext.Value(v.Raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return Value{}
	}
	for step := range strings.SplitSeq(strings.ReplaceAll(path, `\.`, dot), ".") {
		var found Value
		if i, err := strconv.Atoi(step); v.IsArray() && err == nil {
			if all := v.Array(); i >= 0 && i < len(all) {
				found = all[i]
			}
		} else {
			found.Raw = string(jsonview.Get([]byte(v.Raw), strings.ReplaceAll(step, dot, ".")))
		}
		v = found
	}
	return v
}

// Members returns the members of an object; other values have none.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for name, value := range jsonview.Members([]byte(v.Raw)) {
			if !yield(string(name), Value{string(value)}) {
				return
			}
		}
	}
}

// Exists reports whether there is such a value.
func (v Value) Exists() bool { return v.Raw != "" }

// IsObject reports whether the value is an object.
func (v Value) IsObject() bool { return strings.HasPrefix(v.Raw, "{") }

// IsArray reports whether the value is an array.
func (v Value) IsArray() bool { return strings.HasPrefix(v.Raw, "[") }

// Array returns the elements of an array; another value is its own only one.
func (v Value) Array() (all []Value) {
	if !v.IsArray() && v.Exists() {
		return []Value{v}
	}
	for element := range jsonview.Elements([]byte(v.Raw)) {
		all = append(all, Value{string(element)})
	}
	return all
}

// String returns the text of a string, nothing for null, and what else there is as it is written.
func (v Value) String() string {
	if v.Raw == "null" {
		return ""
	}
	if text, err := jsontext.AppendUnquote(nil, v.Raw); err == nil {
		return string(text)
	}
	return v.Raw
}

// Int returns a number, or 0.
func (v Value) Int() int64 {
	if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
		return n
	}
	n, _ := strconv.ParseFloat(v.String(), 64) // such as 1e3
	return int64(n)
}

// Bool reports whether the value is true.
func (v Value) Bool() bool { return v.Raw == "true" }
