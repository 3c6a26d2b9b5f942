// Package jsontest reads JSON in tests, by paths such as "result.content.0.text":
// names of members and indexes of elements, between dots. A dot in a name is
// written as `\.`. What is not there is an empty value, as a test compares it.
package jsontest

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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

// Get returns a value within an object or array.
func (v Value) Get(path string) Value {
	const dot = "\x00"
	for step := range strings.SplitSeq(strings.ReplaceAll(path, `\.`, dot), ".") {
		step = strings.ReplaceAll(step, dot, ".")
		var found Value
		i := 0
		v.ForEach(func(name, element Value) bool {
			if name.Exists() && name.String() == step || !name.Exists() && strconv.Itoa(i) == step {
				found = element
			}
			i++
			return !found.Exists()
		})
		v = found
	}
	return v
}

// ForEach calls a function with each member of an object, or each element of an array, which has no
// name, until it returns false.
func (v Value) ForEach(f func(name, element Value) bool) {
	if !v.IsObject() && !v.IsArray() {
		return
	}
	d := jsontext.NewDecoder(strings.NewReader(v.Raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() != jsontext.KindEndObject && d.PeekKind() != jsontext.KindEndArray {
		var name, element jsontext.Value
		if v.IsObject() {
			name, err = d.ReadValue()
			name = name.Clone()
		}
		if err == nil {
			element, err = d.ReadValue()
		}
		if err != nil || !f(Value{string(name)}, Value{string(element)}) {
			return
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
	v.ForEach(func(_, element Value) bool {
		all = append(all, element)
		return true
	})
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
