package jsonview

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns JSON in the form of RFC 8785, with jsontext's options for it. It
// fails if v is not JSON. What is in that form already, as most clients' small
// objects are, is returned as it is.
func Canonical(v []byte, options ...jsontext.Options) ([]byte, error) {
	if isCanonical(v) {
		return v, nil
	}
	c := jsontext.Value(bytes.Clone(v))
	err := c.Canonicalize(options...)
	return c, err
}

// maxDigits of an integer are kept exactly by the numbers of RFC 8785.
const maxDigits = 15

// maxDepth of nesting is looked into.
const maxDepth = 64

// isCanonical reports whether v surely is JSON in canonical form. It does not
// recognise every such form: not names beyond ASCII, whose order is one of UTF-16,
// nor numbers but small integers.
func isCanonical(v []byte) bool {
	end := canonicalEnd(v, 0, maxDepth)
	return end > 0 && end == len(v) && utf8.Valid(v)
}

// canonicalEnd returns where the canonical value ends that begins at i, or -1 if
// there is none.
func canonicalEnd(v []byte, i, depth int) int {
	if i >= len(v) || depth == 0 {
		return -1
	}
	switch c := v[i]; {
	case c == '{':
		return objectEnd(v, i+1, depth-1)
	case c == '[':
		return arrayEnd(v, i+1, depth-1)
	case c == '"':
		return plainEnd(v, i, 0xff)
	case c >= '0' && c <= '9':
		end := i
		for end < len(v) && v[end] >= '0' && v[end] <= '9' {
			end++
		}
		if end-i > maxDigits || c == '0' && end-i > 1 {
			return -1
		}
		return end
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(v[i:], []byte(word)) {
			return i + len(word)
		}
	}
	return -1
}

func objectEnd(v []byte, i, depth int) int {
	if is(v, i, '}') {
		return i + 1
	}
	var last []byte
	for {
		end := plainEnd(v, i, '~')
		if end < 0 || !is(v, end, ':') || last != nil && bytes.Compare(last, v[i+1:end-1]) >= 0 {
			return -1
		}
		last = v[i+1 : end-1]
		i = canonicalEnd(v, end+1, depth)
		switch {
		case i < 0:
			return -1
		case is(v, i, '}'):
			return i + 1
		case !is(v, i, ','):
			return -1
		}
		i++
	}
}

func arrayEnd(v []byte, i, depth int) int {
	if is(v, i, ']') {
		return i + 1
	}
	for {
		i = canonicalEnd(v, i, depth)
		switch {
		case i < 0:
			return -1
		case is(v, i, ']'):
			return i + 1
		case !is(v, i, ','):
			return -1
		}
		i++
	}
}

// plainEnd returns where the string ends that begins at i, or -1 if there is none
// without escapes and bytes above most.
func plainEnd(v []byte, i int, most byte) int {
	if !is(v, i, '"') {
		return -1
	}
	for i++; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			return i + 1
		case c < ' ' || c == '\\' || c > most:
			return -1
		}
	}
	return -1
}
