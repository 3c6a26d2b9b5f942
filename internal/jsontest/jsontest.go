// Package jsontest reads JSON in tests, by paths such as "result.content.0.text":
// names of members and indexes of elements, between dots. A dot in a name is
// written as `\.`. What is not there is an empty value, as a test compares it.
package jsontest

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Value is a value of a JSON text, or none.
type Value struct {
	// Raw is the value as it stands in the text, or "" if there is none.
	Raw string
}

// Parse returns a whole text, of which it demands nothing.
func Parse[T ~string | ~[]byte](text T) Value { return Value{strings.TrimSpace(string(text))} }

// Get returns a value of a text.
func Get[T ~string | ~[]byte](text T, path string) Value { return Parse(text).Get(path) }

// Valid reports whether a text is JSON.
func Valid[T ~string | ~[]byte](text T) bool { return jsonview.Valid([]byte(text)) }

func (v Value) kind() jsontext.Kind { return jsontext.Value(v.Raw).Kind() }

// Get returns a value within v.
func (v Value) Get(path string) Value {
	name, rest, more := strings.Cut(strings.ReplaceAll(path, `\.`, "\x00"), ".")
	name, rest = strings.ReplaceAll(name, "\x00", "."), strings.ReplaceAll(rest, "\x00", `\.`)
	var found Value
	if list := v.Array(); v.kind() == '[' {
		if i, err := strconv.Atoi(name); err == nil && i < len(list) {
			found = list[i]
		}
	} else {
		found.Raw = string(jsonview.Get([]byte(v.Raw), name))
	}
	if more {
		return found.Get(rest)
	}
	return found
}

// Exists reports whether there is a value.
func (v Value) Exists() bool { return v.Raw != "" }

// IsObject reports whether v is an object.
func (v Value) IsObject() bool { return v.kind() == '{' }

// IsArray reports whether v is an array.
func (v Value) IsArray() bool { return v.kind() == '[' }

// String returns the text of a string, "" for null, and anything else as it stands.
func (v Value) String() string {
	if s, ok := jsonview.String([]byte(v.Raw)); ok || v.kind() == 'n' {
		return s
	}
	return v.Raw
}

// Int returns an integer.
func (v Value) Int() int64 {
	n, _ := strconv.ParseInt(v.Raw, 10, 64)
	return n
}

// Bool reports whether v is true.
func (v Value) Bool() bool { return v.Raw == "true" }

// Array returns the elements of an array. Another value is the only element.
func (v Value) Array() (list []Value) {
	if v.Exists() && v.kind() != '[' && v.kind() != 'n' {
		return []Value{v}
	}
	for element := range jsonview.Elements([]byte(v.Raw)) {
		list = append(list, Value{string(element)})
	}
	return list
}

// ForEach calls f with the members of an object, or with the elements of an array
// and no names, until it returns false.
func (v Value) ForEach(f func(name, value Value) bool) {
	for element := range jsonview.Elements([]byte(v.Raw)) {
		if !f(Value{}, Value{string(element)}) {
			return
		}
	}
	for name, value := range jsonview.Members([]byte(v.Raw)) {
		quoted, _ := jsontext.AppendQuote(nil, name)
		if !f(Value{string(quoted)}, Value{string(value)}) {
			return
		}
	}
}
