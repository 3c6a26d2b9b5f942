// Package jsonview looks into JSON that has been found valid, without copying it.
//
// A request is validated once, as a whole. After that its parts are only to be
// found, and a reader that validates each of them again, and copies it, costs
// more than everything else in a turn. Of JSON that is not valid the functions
// make nothing sensible, but they do not fail.
package jsonview

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Members returns the members of an object: names as they are meant, values as
// they stand. Both are parts of the object's memory where possible. Of anything
// but an object there are none.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i := skipSpace(object, 0)
		if !is(object, i, '{') {
			return
		}
		for i = skipSpace(object, i+1); is(object, i, '"'); i = skipSpace(object, i+1) {
			end := stringEnd(object, i)
			name := text(object[i:end])
			if i = skipSpace(object, end); !is(object, i, ':') {
				return
			}
			start := skipSpace(object, i+1)
			end = valueEnd(object, start)
			if !yield(name, object[start:end:end]) {
				return
			}
			if i = skipSpace(object, end); !is(object, i, ',') {
				return
			}
		}
	}
}

// Elements returns the elements of an array as they stand, in its memory. Of
// anything but an array there are none.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := skipSpace(array, 0)
		if !is(array, i, '[') {
			return
		}
		for {
			start := skipSpace(array, i+1)
			end := valueEnd(array, start)
			if end == start || !yield(array[start:end:end]) {
				return
			}
			if i = skipSpace(array, end); !is(array, i, ',') {
				return
			}
		}
	}
}

// Get returns the value of an object's member, or nil if there is none. With several
// names it looks into the objects within.
func Get(object []byte, names ...string) []byte {
	for _, name := range names {
		object = get(object, name)
	}
	return object
}

func get(object []byte, name string) []byte {
	for n, v := range Members(object) {
		if string(n) == name {
			return v
		}
	}
	return nil
}

// String returns the text of a string, and false if v is none.
func String(v []byte) (string, bool) {
	if !is(v, 0, '"') {
		return "", false
	}
	return string(text(v)), true
}

// Is reports whether v is the string s.
func Is(v []byte, s string) bool { return is(v, 0, '"') && string(text(v)) == s }

// Strings returns the strings of an array, and false if v is not an array of
// strings.
func Strings(v []byte) ([]string, bool) {
	if !is(v, 0, '[') {
		return nil, false
	}
	list := []string{}
	for element := range Elements(v) {
		s, ok := String(element)
		if !ok {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// text returns what is between the quotes of a string, as it is meant.
func text(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 && len(quoted) >= 2 {
		return quoted[1 : len(quoted)-1 : len(quoted)-1]
	}
	b, _ := jsontext.AppendUnquote(nil, quoted)
	return b
}

func is(b []byte, i int, c byte) bool { return i < len(b) && b[i] == c }

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns where the string ends that begins at i.
func stringEnd(b []byte, i int) int {
	for at := i + 1; at < len(b); {
		quote := bytes.IndexByte(b[at:], '"')
		if quote < 0 {
			break
		}
		at += quote + 1
		// An odd number of backslashes before it makes it part of the text.
		n := at - 2
		for n > i && b[n] == '\\' {
			n--
		}
		if (at-n)%2 == 0 {
			return at
		}
	}
	return len(b)
}

// valueEnd returns where the value ends that begins at i.
func valueEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = stringEnd(b, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i // of what the value is in
			}
		case ',', ' ', '\n', '\t', '\r', ':':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			continue // inside a number, true, false or null
		}
		if i++; depth == 0 {
			return i
		}
	}
	return i
}

// Deeper reports whether arrays and objects in v are nested more than so deep.
func Deeper(v []byte, levels int) bool {
	if len(v) <= levels { // each level takes a byte to begin
		return false
	}
	depth := 0
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '"':
			i = stringEnd(v, i) - 1
		case '{', '[':
			if depth++; depth > levels {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}
