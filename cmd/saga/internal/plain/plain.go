// Package plain makes text from outside fit for a terminal.
package plain

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Text returns s without escape sequences, control characters, and characters that change
// the direction of writing or are invisible. Line breaks stay; tabs become spaces.
func Text(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	return seen(ansi.Strip(breaks.Replace(s)))
}

// breaks are the control characters that have a meaning in plain text.
var breaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", "    ")

// Hidden counts the characters of s that [Text] leaves out. A model that gets them reads
// another text than the person.
func Hidden(s string) int {
	valid := strings.ToValidUTF8(s, string(utf8.RuneError))
	return utf8.RuneCountInString(breaks.Replace(valid)) - utf8.RuneCountInString(Text(s))
}

// Line returns [Text] of s on a single line.
func Line(s string) string {
	return strings.Join(strings.Fields(Text(s)), " ")
}

// Writer writes what [Text] makes of its lines.
type Writer struct {
	To   io.Writer
	line []byte
}

// maxLine is how many bytes of a line a [Writer] keeps until the line ends.
const maxLine = 16 << 10

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (int, error) {
	w.line = append(w.line, b...)
	end := bytes.LastIndexByte(w.line, '\n') + 1
	if len(w.line)-end >= maxLine {
		end = len(w.line)
	}
	if end == 0 {
		return len(b), nil
	}
	var out strings.Builder
	for line := range bytes.Lines(w.line[:end]) { // an escape sequence ends with its line
		out.WriteString(Text(string(line)))
	}
	w.line = append(w.line[:0], w.line[end:]...)
	_, err := io.WriteString(w.To, out.String())
	return len(b), err
}

// Clip returns [Text] of s, cut to a number of characters and lines, and how many characters
// were cut off. Several blank lines, which would push the text before them off the screen, are
// replaced by their number.
func Clip(s string, characters, lines int) (shown string, left int) {
	text := withoutGaps(Text(s))
	end, n := len(text), 0
	for i, r := range text {
		if n++; n > characters || r == '\n' && lines <= 1 {
			end = i
			break
		}
		if r == '\n' {
			lines--
		}
	}
	return text[:end], utf8.RuneCountInString(text[end:])
}

// withoutGaps replaces several blank lines by one that counts them.
func withoutGaps(text string) string {
	var b strings.Builder
	blank, line := 0, "" // the blank lines before the next one, the last of them
	fill := func() {
		if blank > 1 {
			line = fmt.Sprintf("… %d blank lines …\n", blank)
		}
		b.WriteString(line)
		blank, line = 0, ""
	}
	for next := range strings.Lines(text) {
		if strings.TrimSpace(next) == "" {
			blank, line = blank+1, next
			continue
		}
		fill()
		b.WriteString(next)
	}
	fill()
	return b.String()
}

// Short returns [Line] of s, cut to a number of characters.
func Short(s string, most int) string {
	// A character has at most four bytes, and some are left out.
	if limit := 16 * most; len(s) > limit {
		s = s[:limit]
	}
	runes := []rune(Line(s))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-1]) + "…"
}
