// Package jsonview finds parts of valid JSON without copying them.
//
// A request is validated once, as a whole. A reader that validated and copied each part
// again would cost more than the rest of a turn. If JSON is not valid, the results mean
// nothing, but no function fails.
package jsonview

import (
	"bytes"
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Members returns the members of an object: names without quotes and escapes, values as
// they are written. Both are parts of the object's memory where possible. Other values
// have no members.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i, c := next(object, 0)
		if c != '{' {
			return
		}
		for i, c = next(object, i+1); c == '"'; i, c = next(object, i+1) {
			end := stringEnd(object, i)
			name := text(object[i:end])
			if i, c = next(object, end); c != ':' {
				return
			}
			start, _ := next(object, i+1)
			end = valueEnd(object, start)
			if !yield(name, object[start:end:end]) {
				return
			}
			if i, c = next(object, end); c != ',' {
				return
			}
		}
	}
}

// Elements returns the elements of an array as they are written, in its memory. Other
// values have no elements.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i, c := next(array, 0)
		for more := c == '['; more; more = c == ',' {
			start, _ := next(array, i+1)
			end := valueEnd(array, start)
			if end == start || !yield(array[start:end:end]) {
				return
			}
			i, c = next(array, end)
		}
	}
}

// Get returns the value of an object's member, or nil if there is none. Several names are
// those of members of members.
func Get(object []byte, names ...string) []byte {
	for _, name := range names {
		within := object
		object = nil
		for n, v := range Members(within) {
			if string(n) == name {
				object = v
				break
			}
		}
	}
	return object
}

// Rewrite returns an object with its values replaced by what change returns for them, and
// without the members for which it returns nil.
func Rewrite(object []byte, change func(name, value []byte) []byte) []byte {
	b := append(make([]byte, 0, len(object)), '{')
	for name, v := range Members(object) {
		if v = change(name, v); v == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, name)
		b = append(append(b, ':'), v...)
	}
	return append(b, '}')
}

// String returns the text of a string, and false if v is none.
func String(v []byte) (string, bool) {
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	return string(text(v)), true
}

// Is reports whether v is the string s.
func Is(v []byte, s string) bool { return len(v) > 0 && v[0] == '"' && string(text(v)) == s }

// Strings returns the strings of an array, and false if v is not an array of
// strings.
func Strings(v []byte) ([]string, bool) {
	if len(v) == 0 || v[0] != '[' {
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

// text returns a string without quotes and escapes.
func text(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 && len(quoted) >= 2 {
		return quoted[1 : len(quoted)-1 : len(quoted)-1]
	}
	b, _ := jsontext.AppendUnquote(nil, quoted)
	return b
}

// next returns the place of the first byte from i on that is no space, and that byte, or 0
// at the end.
func next(b []byte, i int) (int, byte) {
	for ; i < len(b); i++ {
		if c := b[i]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return i, c
		}
	}
	return i, 0
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

// Deeper reports whether arrays and objects in v are nested in more than so many levels.
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

// mostFar is how many numbers with exponents of three digits there may be.
const mostFar = 10_000

// Far reports whether v has more numbers with exponents of three digits than are read: each can take a hundred times as
// long as another.
func Far(v []byte) bool {
	far := 0
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '"':
			i = stringEnd(v, i) - 1
		case 'e', 'E': // of true and false, too
			for i++; i < len(v) && (v[i] == '+' || v[i] == '-' || v[i] == '0'); i++ {
			}
			begin := i
			for ; i < len(v) && v[i] >= '0' && v[i] <= '9'; i++ {
			}
			if i-begin > 2 {
				far++
			}
			i--
		}
	}
	return far > mostFar
}

// Valid reports whether v is one JSON value: in UTF-8, and without two members of one
// name in any object. It may wait: see [TakeApart].
func Valid(v []byte) bool {
	defer TakeApart(len(v))()
	return jsontext.Value(v).IsValid()
}

// ValidWithin is Valid, and also reports whether v is neither [Deeper] nor [Far].
func ValidWithin(v []byte, levels int) (valid, within bool) {
	return Valid(v), !Deeper(v, levels) && !Far(v)
}

// Canonical returns JSON in the form of RFC 8785, with jsontext's options for it: v itself
// if it has that form. It fails if v is not JSON.
func Canonical(v []byte, options ...jsontext.Options) ([]byte, error) {
	c := jsontext.Value(bytes.Clone(v))
	err := c.Canonicalize(options...)
	return c, err
}

const (
	// mostDigits is how many digits the largest integer of Go has.
	mostDigits = 20
	// farOut is an exponent that no digits can make up for.
	farOut = 1 << 30
)

// Integer returns a number of JSON as digits, if it is an integer that Go may have. It
// does not round: a float64 cannot tell large integers apart. The work grows with the number's length
// only, whatever its exponent.
func Integer(number string) (digits string, ok bool) {
	number, negative := strings.CutPrefix(number, "-")
	mantissa, exponent := number, 0
	if i := strings.IndexAny(number, "eE"); i >= 0 {
		mantissa = number[:i]
		exponent, _ = strconv.Atoi(number[i+1:])
		exponent = max(-farOut, min(exponent, farOut))
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0", true
	}
	point := exponent - len(fraction) // how many zeros come after the digits
	significant := strings.TrimRight(digits, "0")
	point += len(digits) - len(significant)
	if point < 0 || point > mostDigits || len(significant)+point > mostDigits {
		return "", false
	}
	if digits = significant + strings.Repeat("0", point); negative {
		digits = "-" + digits
	}
	return digits, true
}

// Int64 returns the integer that a number of JSON stands for, however it is written: 3, 3.0
// and 3e0 are the same.
func Int64(v []byte) (int64, bool) {
	digits, ok := Integer(string(v))
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, ok && err == nil
}
