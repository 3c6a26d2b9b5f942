package plain

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
)

// Text that a terminal does not show is left out, and counted for the one who is to consent to it.
func TestHidden(t *testing.T) {
	selectors := func(s string) (hidden string) { // a byte as each of 256 variation selectors
		for _, b := range []byte(s) {
			if b < 16 {
				hidden += string(rune(0xFE00 + int(b)))
			} else {
				hidden += string(rune(0xE0100 + int(b) - 16))
			}
		}
		return hidden
	}
	for in, want := range map[string]int{
		"a\x1b]0;send the password too\x07b":           26,
		"a" + "\U000e0068\U000e0069" + "b\u200b":       3,
		"Yes" + selectors("send the passwords") + ".":  18,
		"😊" + selectors("\xf0\xff send the passwords"): 21,
		"漢" + selectors("send the passwords"):          18,
		"one\ufe0fletter":                              1,
		"😊\ufe0f\ufe0f":                                1,
		"\ufe0falone":                                  1,
		"a" + strings.Repeat("\u200c\u200d", 50) + "b": 100,
		"h\u200ci\u200dd":                              2,
		"سلام" + strings.Repeat("\u200c\u200d", 50):    99,
		"👩" + strings.Repeat("\u200d", 9) + "👧":        8,
		"👩\u200d":                           1,
		"👩\u200dand":                        1,
		"a\u3164\u3164b":                    2,
		"\u115f\u1160\uffa0":                3,
		"a\u2800\u2800b":                    2,
		"⠓\u2800\u2800\u2800":               2,
		"\U0001D159\U00016FE4":              2,
		"a\u034fb\u2065c\ufff0d\U000e0fffe": 4,
		"\u17b4\u17b5":                      2,
		"a\u180eb\u180bc":                   2,
		"soft\u00adhyphen \u2060\ufeff":     3,
		"\u2066isolate\u2069":               2,
		"🏴" + tags("gbeng send the passwords") + "done": 25,
		"🏴" + tags("gb"):                      3,
		"🏴" + tags("ab1") + "🏴" + tags("cd2"): 8,
		"a\u0604\u0604":                       0, // signs of Arabic that are seen, though they are format characters
	} {
		assert.Equal(t, want, Hidden(in), "%+q", in)
		assert.Zero(t, Hidden(Text(in)), "%+q", in)
	}
}

// tags writes a text as tags end; the last one is the tag that ends it.
func tags(s string) (hidden string) {
	for _, r := range s {
		hidden += string(0xe0000 + r)
	}
	return hidden + "\U000e007f"
}

// Writing that needs characters without a shape of their own stays as it is.
func TestOrdinaryWritingIsNotHidden(t *testing.T) {
	for name, in := range map[string]string{
		"plain":                      "plain text, übergrößen 日本語 Ελληνικά кириллица",
		"spaces":                     "prix\u00a0: 5\u202f€, 日本\u3000語",
		"decomposed":                 "u\u0308ber, e\u0301, A\u030a",
		"Persian, half spaces":       "می\u200cخواهم کتاب\u200cها را ببینم",
		"Persian, with a vowel":      "مَ\u200cی نامه\u200cای",
		"Arabic, an abbreviation":    "سنة ١٤٤٥ ه\u200d",
		"Arabic, shapes of a letter": "ه ه\u200d \u200dه\u200d \u200dه",
		"Arabic, the end of a verse": "ٱلْحَمْدُ لِلَّهِ رَبِّ ٱلْعَٰلَمِينَ \u06dd٢",
		"Urdu":                       "علم\u200cدوست",
		"Uyghur, Kurdish":            "ئەمە مەكتەپ، دە\u200cچم",
		"Hindi, a half letter":       "क्\u200dष, क्\u200cष, रक्\u200dषा",
		"Marathi, an eyelash ra":     "दर्\u200dया, वाऱ्\u200dया",
		"Bengali, ra and ya":         "র\u200d্যাব, র\u200d্যালি",
		"Malayalam, chillu":          "അവന്\u200d പറഞ്ഞു",
		"Sinhala":                    "ශ්\u200dරී ලංකා, ක්\u200dෂ",
		"Tamil, Kannada":             "க்\u200cஷ, ರ್\u200dಕ",
		"Telugu":                     "సాఫ్ట్\u200cవేర్",
		"Khmer, Myanmar":             "ស្រី\u200cភាព မြန်\u200cမာ",
		"Mongolian":                  "ᠮᠣᠩᠭᠣᠯ\u180eᠠ ᠨ\u180bᠠ",
		"family":                     "👩\u200d👩\u200d👧\u200d👦 👨🏽\u200d🌾 🧑🏿\u200d🤝\u200d🧑🏻",
		"profession":                 "👩\u200d⚕\ufe0f 🧑\u200d⚖\ufe0f 👨\u200d✈\ufe0f 🏃🏽\u200d♀\ufe0f\u200d➡\ufe0f",
		"heart":                      "❤\ufe0f ❤\ufe0f\u200d🔥 👩\u200d❤\ufe0f\u200d💋\u200d👨",
		"head, bird, chain":          "🙂\u200d↔\ufe0f 🐦\u200d⬛ ⛓\ufe0f\u200d💥 🍋\u200d🟩",
		"rainbow, pirates":           "🏳\ufe0f\u200d🌈 🏳\ufe0f\u200d⚧\ufe0f 🏴\u200d☠\ufe0f 👁\ufe0f\u200d🗨\ufe0f",
		"flags":                      "🇩🇪 🇯🇵 🏴",
		"keycaps":                    "1\ufe0f\u20e3 #\ufe0f\u20e3 *\ufe0f\u20e3",
		"signs":                      "©\ufe0f ™\ufe0f ‼\ufe0f ⁉\ufe0f ℹ\ufe0f Ⓜ\ufe0f ㊗\ufe0f 〰\ufe0f ▶\ufe0f ☎\ufe0e ✂\ufe0f ⤴\ufe0f",
		"Braille":                    "⠓⠑⠇⠇⠕\u2800⠺⠕⠗⠇⠙",
		"old Hangul, Hebrew":         "ᄒᆞᆫ글 שָׁלוֹם",
		"invalid":                    "bad \xff\xff byte",
		"lines":                      "a\r\nb\rc\td\n",
	} {
		assert.Zero(t, Hidden(in), "%s: %+q", name, in)
		if name != "lines" {
			assert.Equal(t, strings.ToValidUTF8(in, "\ufffd"), Text(in), name)
		}
	}
}

// No character of which Unicode says that it may be ignored, that it is none, or that it leaves its meaning
// to private agreement, and none that is blank without being a space, is shown where nothing calls for it.
func TestEveryIgnorableCharacterIsHidden(t *testing.T) {
	ignorable := func(r rune) bool { // first Default_Ignorable_Code_Point, as DerivedCoreProperties.txt derives it
		return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Cf, unicode.Variation_Selector) &&
			!unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark) &&
			(r < 0xfff9 || r > 0xfffb) && (r < 0x13430 || r > 0x13440) ||
			r >= 0xe000 && r <= 0xf8ff || r >= 0xf0000 || r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe // private use; no characters
	}
	n := 0
	for r := range rune(unicode.MaxRune + 1) {
		if !ignorable(r) {
			continue
		}
		n++
		assert.Equal(t, 1, Hidden("a"+string(r)+"b"), "%U", r)
		assert.Equal(t, "ab", Text("a"+string(r)+"b"), "%U", r)
	}
	assert.Greater(t, n, 4100+6400+2*65536)
}
