package jsonview

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// plain recognises most of the JSON that messages consist of, in a fraction of the time that
// the library takes. What it does not recognise may be rare or wrong: the library decides.
type plain struct {
	v []byte
	// rewritten reports that the form of RFC 8785 may differ.
	rewritten bool
}

const (
	// maxNames in one object are compared with one another.
	maxNames = 16
	// maxDepth of nesting is looked into.
	maxDepth = 64
	// maxDigits of an integer are kept exactly by the numbers of RFC 8785.
	maxDigits = 15
)

// isPlain reports whether v is surely valid, and whether it is surely canonical.
func isPlain(v []byte) (valid, canonical bool) {
	p := plain{v: v}
	end := p.value(0, maxDepth)
	if end < 0 || !utf8.Valid(v) {
		return false, false
	}
	end, _ = p.next(end)
	return end == len(v), !p.rewritten
}

// next is the function of that name; space is not canonical.
func (p *plain) next(i int) (int, byte) {
	at, c := next(p.v, i)
	if at != i {
		p.rewritten = true
	}
	return at, c
}

// value returns where the value ends that comes next, or -1 if it is not plain.
func (p *plain) value(i, depth int) int {
	i, c := p.next(i)
	switch {
	case depth == 0:
		return -1
	case c == '"':
		end, _ := p.text(i)
		return end
	case c == '{', c == '[':
		return p.list(i, c+2, depth-1) // the byte that closes it is the next but one
	case c >= 'f':
		for _, word := range [...]string{"true", "false", "null"} {
			if bytes.HasPrefix(p.v[i:], []byte(word)) {
				return i + len(word)
			}
		}
		return -1
	}
	// Integers. Fractions and exponents are rare: nothing takes what is left of them.
	if c == '-' {
		p.rewritten = true // as it could be -0
		i++
	}
	end := i
	for end < len(p.v) && p.v[end] >= '0' && p.v[end] <= '9' {
		end++
	}
	if end == i || p.v[i] == '0' && end > i+1 {
		return -1
	}
	p.rewritten = p.rewritten || end-i > maxDigits
	return end
}

// list returns where the object or array ends that begins at i and is closed by last.
func (p *plain) list(i int, last byte, depth int) int {
	var names [maxNames][]byte
	for n := 0; ; n++ {
		at, c := p.next(i + 1)
		switch {
		case n == 0 && c == last:
			return at + 1
		case last == ']':
		case c != '"' || n == maxNames:
			return -1
		default:
			end, escapes := p.text(at)
			if end < 0 || escapes {
				return -1 // it could be the name of another, spelt otherwise
			}
			names[n] = p.v[at+1 : end-1]
			for _, other := range names[:n] {
				if string(other) == string(names[n]) {
					return -1
				}
			}
			if n > 0 && !p.rewritten && !ordered(names[n-1], names[n]) {
				p.rewritten = true
			}
			if i, c = p.next(end); c != ':' {
				return -1
			}
		}
		if i = p.value(i+1, depth); i < 0 {
			return -1
		}
		switch i, c = p.next(i); c {
		case last:
			return i + 1
		case ',':
		default:
			return -1
		}
	}
}

// ordered reports whether a surely comes before b in RFC 8785, which orders by UTF-16.
func ordered(a, b []byte) bool {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] != b[i] {
			return a[i] < b[i] && b[i] < utf8.RuneSelf
		}
	}
	return len(a) < len(b)
}

// text returns where the string ends that begins at i, and whether it has escapes. It takes
// those of one character; others name halves of characters, which may not fit together.
func (p *plain) text(i int) (end int, escapes bool) {
	for i = p.skip(i + 1); i < len(p.v); i = p.skip(i + 1) {
		switch p.v[i] {
		case '"':
			return i + 1, escapes
		case '\\':
			escapes, p.rewritten = true, true
			if i++; i == len(p.v) || bytes.IndexByte([]byte(`"\/bfnrt`), p.v[i]) < 0 {
				return -1, true
			}
		default:
			return -1, false // a control character
		}
	}
	return -1, false
}

// skip returns the place of the first quote, backslash or control character from i on. It
// looks at eight bytes at a time as long as there are eight.
func (p *plain) skip(i int) int {
	const each = 0x0101010101010101
	for ; i+8 <= len(p.v); i += 8 {
		x := binary.LittleEndian.Uint64(p.v[i:])
		quote, backslash := x^each*'"', x^each*'\\'
		// The top bit of the lowest byte that is one of these gets set, as taking something away
		// from it borrows. (Higher bytes may be hit by mistake.)
		if hit := ((x-each*' ')&^x | (quote-each)&^quote | (backslash-each)&^backslash) & (each * 0x80); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for i < len(p.v) && p.v[i] >= ' ' && p.v[i] != '"' && p.v[i] != '\\' {
		i++
	}
	return i
}
