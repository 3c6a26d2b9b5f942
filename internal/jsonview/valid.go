package jsonview

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Valid reports whether v is one JSON value as jsontext wants it: in UTF-8, and
// without two members of one name in any object.
//
// What most messages are made of is recognised here, in a fraction of the time of
// jsontext's own check. Whatever is not surely valid, for being rare or for being
// wrong, is left to that.
func Valid(v []byte) bool {
	if len(v) <= math.MaxInt32 {
		i := valid(v, skipSpace(v, 0), maxDepth)
		if i >= 0 && skipSpace(v, i) == len(v) && utf8.Valid(v) {
			return true
		}
	}
	return jsontext.Value(v).IsValid()
}

// maxNames are compared with one another in an object.
const maxNames = 16

// valid returns where the value ends that begins at i, or -1 if it is not surely a
// valid one.
func valid(v []byte, i, depth int) int {
	if i >= len(v) || depth == 0 {
		return -1
	}
	switch v[i] {
	case '{':
		return validObject(v, i+1, depth-1)
	case '[':
		return validArray(v, i+1, depth-1)
	case '"':
		return validString(v, i)
	case 't':
		return word(v, i, "true")
	case 'f':
		return word(v, i, "false")
	case 'n':
		return word(v, i, "null")
	}
	return validInteger(v, i)
}

func validObject(v []byte, i, depth int) int {
	if i = skipSpace(v, i); is(v, i, '}') {
		return i + 1
	}
	var names [maxNames]struct{ from, to int32 }
	for n := 0; ; n++ {
		end := plainEnd(v, i, 0xff) // names with escapes could be the same spelt otherwise
		if end < 0 || n == maxNames {
			return -1
		}
		for _, other := range names[:n] {
			if string(v[other.from:other.to]) == string(v[i:end]) {
				return -1
			}
		}
		names[n].from, names[n].to = int32(i), int32(end)
		if i = skipSpace(v, end); !is(v, i, ':') {
			return -1
		}
		if i = valid(v, skipSpace(v, i+1), depth); i < 0 {
			return -1
		}
		i = skipSpace(v, i)
		switch {
		case is(v, i, '}'):
			return i + 1
		case !is(v, i, ','):
			return -1
		}
		i = skipSpace(v, i+1)
	}
}

func validArray(v []byte, i, depth int) int {
	if i = skipSpace(v, i); is(v, i, ']') {
		return i + 1
	}
	for {
		if i = valid(v, i, depth); i < 0 {
			return -1
		}
		i = skipSpace(v, i)
		switch {
		case is(v, i, ']'):
			return i + 1
		case !is(v, i, ','):
			return -1
		}
		i = skipSpace(v, i+1)
	}
}

// validString takes strings with the escapes of one character. The others name
// characters by halves, which may not fit together.
func validString(v []byte, i int) int {
	for i = skipPlain(v, i+1); i < len(v); i = skipPlain(v, i) {
		switch c := v[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i++; i >= len(v) {
				return -1
			}
			switch v[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return -1
			}
		}
		i++
	}
	return -1
}

// skipPlain returns a place from i on up to which there is neither a quote, a
// backslash nor a control character: eight bytes at a time, as far as there are
// eight.
func skipPlain(v []byte, i int) int {
	const each = 0x0101010101010101
	for ; i+8 <= len(v); i += 8 {
		x := binary.LittleEndian.Uint64(v[i:])
		quote, backslash := x^each*'"', x^each*'\\'
		// The top bit of the lowest byte that is one of these gets set, as taking
		// something away from it borrows. (Higher bytes may be hit by mistake.)
		if hit := ((x-each*' ')&^x | (quote-each)&^quote | (backslash-each)&^backslash) & (each * 0x80); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	return i
}

// validInteger takes integers. Fractions and exponents are rare.
func validInteger(v []byte, i int) int {
	if is(v, i, '-') {
		i++
	}
	if is(v, i, '0') {
		return numberEnd(v, i+1)
	}
	start := i
	for i < len(v) && v[i] >= '0' && v[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return numberEnd(v, i)
}

// numberEnd returns i unless the number goes on there.
func numberEnd(v []byte, i int) int {
	if i < len(v) && (v[i] >= '0' && v[i] <= '9' || v[i] == '.' || v[i] == 'e' || v[i] == 'E') {
		return -1
	}
	return i
}

func word(v []byte, i int, w string) int {
	if end := i + len(w); end <= len(v) && string(v[i:end]) == w {
		return end
	}
	return -1
}
