package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
	textStyle          = '\ufe0e' // how the symbol before it is drawn
	emojiStyle         = '\ufe0f'
	keycap             = '\u20e3'
	blankBraille       = '\u2800'
	blackFlag          = '🏴'
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

// flags are the tags behind a black flag that make it the flag of England, Scotland or Wales,
// the only ones that Unicode recommends. Terminals show no other tags.
var flags = []string{"gbeng", "gbsct", "gbwls"}

// unseen reports whether a terminal shows nothing for r, draws other characters differently
// because of it, or shows a picture without a meaning, as for characters of private use. Signs
// that precede numbers are shown, although Unicode's tables list them with the rest.
func unseen(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Co, unicode.Noncharacter_Code_Point, blank) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// seen returns s without unseen characters, except where scripts and emoji need them: one
// joiner beside a letter that joins, one between two emoji, the style of an emoji, the
// tags of a flag. More of them could carry a text that only a model reads.
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
		if r == blackFlag {
			tags := flagTags(s[i:])
			b.WriteString(tags)
			i += len(tags)
		}
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

// flagTags returns the tags of a known flag that s begins with.
func flagTags(s string) string {
	for _, flag := range flags {
		tags := strings.Map(func(r rune) rune { return 0xe0000 + r }, flag+"\x7f")
		if strings.HasPrefix(s, tags) {
			return tags
		}
	}
	return ""
}
