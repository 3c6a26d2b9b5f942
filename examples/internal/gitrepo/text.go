package gitrepo

import (
	"regexp"
	"strings"
	"unicode"
)

// Clip returns the first n characters of a text, in memory of its own: the text may be part of one that
// is very long.
func Clip(s string, n int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return strings.Clone(s)
}

// Line returns the first n characters of a text as one line. It leaves out controls of terminals and
// marks that turn text around.
func Line(s string, n int) string {
	return Clip(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200d': // which joins emoji
			return -1
		}
		return r
	}, Clip(s, 4*n+100)), n)
}

// special are the characters that mean something in Markdown or in HTML.
var special = regexp.MustCompile("[\\\\`*_{}\\[\\]<>()#+!|~&]")

// Markdown returns a line as Markdown that shows it as it is.
func Markdown(s string) string { return special.ReplaceAllString(s, `\$0`) }
