// Package plain makes text from outside fit for a terminal.
package plain

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
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
	text := gaps.ReplaceAllStringFunc("\n"+Text(s), func(gap string) string {
		return fmt.Sprintf("\n… %d blank lines …\n", strings.Count(gap, "\n")-1)
	})[1:]
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

// gaps are several blank lines.
var gaps = regexp.MustCompile(`\n([\t\f\r\v\x{85}\p{Z}]*\n){2,}`)

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

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
	textStyle          = '\ufe0e' // how the symbol before it is drawn
	emojiStyle         = '\ufe0f'
	keycap             = '\u20e3'
	blankBraille       = '\u2800'
)

// blank are characters that show nothing, besides spaces and those that Unicode calls ignorable.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{{blankBraille, blankBraille, 1}},
	R32: []unicode.Range32{
		{0x13441, 0x13442, 1}, // blanks of hieroglyphs
		{0x16fe4, 0x16fe4, 1}, // the filler of Khitan
		{0x1d159, 0x1d159, 1}, // a note without a head
	},
}

// alone are the scripts in which each letter stands alone, so that a joiner changes nothing.
var alone = []*unicode.RangeTable{
	unicode.Common, unicode.Inherited, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Han, unicode.Hiragana, unicode.Katakana,
	unicode.Bopomofo, unicode.Hangul, unicode.Hebrew, unicode.Armenian, unicode.Georgian, unicode.Thai, unicode.Lao, unicode.Ethiopic,
	unicode.Cherokee, unicode.Canadian_Aboriginal,
}

// emoji are the characters besides [unicode.So] that have a style and make sequences.
var emoji = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x203c, 0x203c, 1}, {0x2049, 0x2049, 1}, {0x2139, 0x2139, 1}, {0x2194, 0x2194, 1}, {0x25fd, 0x25fe, 1}, {0x2934, 0x2935, 1},
		{0x3030, 0x3030, 1}, {0x303d, 0x303d, 1},
	},
	R32: []unicode.Range32{{0x1f3fb, 0x1f3ff, 1}}, // the colors of skin
}

// unseen reports whether a terminal shows nothing for r, draws other characters differently
// because of it, or shows a picture without a meaning, as for characters of private use. Signs
// that precede numbers are shown, although Unicode's tables list them with the rest.
func unseen(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Co, unicode.Noncharacter_Code_Point, blank) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// seen returns s without unseen characters, except where scripts and emoji need them: one
// joiner beside a letter that joins, one between two emoji, the style of an emoji. More of them could carry a text that only a model reads.
func seen(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	var last, base rune // the last character kept, and the last of these that is no mark on another
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		next, _ := utf8.DecodeRuneInString(s[i:])
		if r != '\n' && unseen(r) && !needed(r, last, base, next) {
			continue
		}
		if last = r; !unicode.IsMark(r) && !unseen(r) {
			base = r
		}
		b.WriteRune(r)
	}
	return b.String()
}

// needed reports whether an unseen character belongs where it is.
func needed(r, last, base, next rune) bool {
	switch {
	case r == zeroWidthJoiner && isEmoji(base) && isEmoji(next):
		return last != r
	case r == zeroWidthJoiner, r == zeroWidthNonJoiner:
		return last != zeroWidthJoiner && last != zeroWidthNonJoiner && (joins(base) || joins(next))
	case r == textStyle, r == emojiStyle:
		return isEmoji(last) || next == keycap && strings.ContainsRune("0123456789#*", last)
	case r >= '\u180b' && r <= '\u180f': // shapes of the letter before them
		return last == base && unicode.Is(unicode.Mongolian, base)
	case r == blankBraille:
		return last != r && unicode.Is(unicode.Braille, last)
	}
	return false
}

func isEmoji(r rune) bool {
	return unicode.In(r, unicode.So, emoji) && !unicode.Is(blank, r) && r != utf8.RuneError // also at the end
}

// joins reports whether r is a letter that looks different beside others.
func joins(r rune) bool { return unicode.IsLetter(r) && !unicode.In(r, alone...) }
