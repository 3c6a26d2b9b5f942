// Package plain makes text from outside fit for a terminal.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Text returns s without anything a terminal would act on: escape sequences,
// control characters, and characters that turn the direction of writing or are
// not seen at all. Line breaks stay; tabs become spaces.
func Text(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	return strings.Map(keep, ansi.Strip(breaks.Replace(s)))
}

// breaks are the control characters that have a meaning in plain text.
var breaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", "    ")

// Hidden counts the characters of s that [Text] leaves out. Whoever reads them all
// the same, such as a model, reads something else than the person.
func Hidden(s string) int {
	valid := strings.ToValidUTF8(s, string(utf8.RuneError))
	return utf8.RuneCountInString(breaks.Replace(valid)) - utf8.RuneCountInString(Text(s))
}

// Line returns s as [Text] does, on a single line.
func Line(s string) string {
	return strings.Join(strings.Fields(Text(s)), " ")
}

func keep(r rune) rune {
	switch {
	case r == '\n':
		return r
	case unicode.IsControl(r), invisible(r):
		return -1
	}
	return r
}

// invisible reports whether r changes how other characters look without being
// seen itself. Joiners stay: scripts and emoji need them.
func invisible(r rune) bool {
	const (
		zeroWidthNonJoiner = '\u200c'
		zeroWidthJoiner    = '\u200d'
	)
	if r == zeroWidthNonJoiner || r == zeroWidthJoiner {
		return false
	}
	return unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}
