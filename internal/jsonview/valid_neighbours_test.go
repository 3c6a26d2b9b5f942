package jsonview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// classes are texts of all the kinds that Valid decides about or leaves to the library.
var classes = []string{
	`{"a":1,"b":[true,"x"]}`, `{"b":{"c":null},"b":-0}`, `[1.50,"\u00e9",{"":{}}]`, "[\"\xff\",\"\\n\"]", `"12345678 \" \\ "`,
	// Names: spelt differently, the same in two objects, a part of another, empty, not of ASCII.
	`{"a":1,"\u0061":2}`, `{"\/":1,"/":2}`, `{"a":{"a":1},"b":{"a":1}}`, `{"ab":1,"a":2}`, `{"":1,"":2}`, `{"ä":1,"\u00e4":2}`, `{"a\"b":1,"a":2}`,
	`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11,"l":12,"m":13,"n":14,"o":15,"p":16,"q":17,"a":18}`,
	// UTF-8: cut off, too long, halves of pairs, beyond the last character, a mark of the order of bytes, outside of strings.
	"\"\xc3\xa9\"", "\"\xc3\"", "\"\xe2\x82\"", "\"\xf0\x9f\x98\x80\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xed\xbf\xbf\"", "\"\xf4\x90\x80\x80\"",
	"\ufeff{}", "[\xc2\xa0]", "{\"\xff\":1}", "\"\x7f\u0080\"", "\"1234567\xc3\xa9\"", "\"12345678\xc3\"",
	// Pairs: whole, halves, in the wrong order, and what only looks like one.
	`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx"`, `"\\ud83d"`, `"\u12"`, `"\uD83D\uDE00"`, `"\U0041"`,
	// Numbers.
	`-`, `-0`, `-01`, `00`, `1.`, `.5`, `1e`, `1e+`, `1E5`, `-1.5e-3`, `1e999`, `0x1`, `+1`, `1_0`, `NaN`, `123456789012345678901234567890`, `[0-1]`, `[1true]`,
	// What stands around values and between them.
	` {} `, "\t[\n]\r", "{}\x00", "\f{}", "\v1", `{}{}`, `[]]`, `nulll`, `[nul]`, `tru`, `{"a":1,}`, `[,]`, `{"a"}`, `{1:2}`, `{"a":1 "b":2}`, `["a""b"]`, `'a'`, `/**/1`,
}

func agree(t *testing.T, v []byte) {
	if want := jsontext.Value(v).IsValid(); Valid(v) != want {
		t.Errorf("Valid(%q) is %v, to jsontext it is %v", v, !want, want)
	}
}

// TestValidOfNeighbours compares with the library what differs from a text in one
// byte, or ends early.
func TestValidOfNeighbours(t *testing.T) {
	bytes := []byte("\x00\t\n\x1f !\"#+,-./019:E[\\]aeu{}\x7f\x80\xbf\xc3\xff")
	for _, s := range classes {
		agree(t, []byte(s))
		for at := range len(s) + 1 {
			agree(t, []byte(s[:at]))
			for _, b := range bytes {
				agree(t, append(append([]byte(s[:at]), b), s[at:]...))
				if at < len(s) {
					agree(t, append(append([]byte(s[:at]), b), s[at+1:]...))
				}
			}
		}
	}
}

// TestValidOfStrings puts each byte at each place of strings that begin and end at
// each place of eight bytes.
func TestValidOfStrings(t *testing.T) {
	for before := range 8 {
		for n := 1; n <= 18; n++ {
			for at := range n {
				v := []byte(strings.Repeat(" ", before) + `"` + strings.Repeat("a", n) + `"`)
				for b := range 256 {
					v[before+1+at] = byte(b)
					agree(t, v)
				}
			}
		}
	}
	// Two of them: what the lower does to the higher.
	special := []byte("\x00\x1f !\"#\\]\x7f\x80\xa0\xa2\xdc\xff")
	for _, a := range special {
		for _, b := range special {
			for at := range 15 {
				v := []byte(`"aaaaaaaaaaaaaaaa"`)
				v[1+at], v[2+at] = a, b
				agree(t, v)
			}
		}
	}
}

func TestValidOfManyNamesAndDeepValues(t *testing.T) {
	for n := range 3 * maxNames {
		for twice := range n {
			v := "{"
			for i := range n {
				v += fmt.Sprintf(`"n%d":[],`, i)
			}
			agree(t, []byte(strings.TrimSuffix(v, ",")+"}"))
			agree(t, fmt.Appendf(nil, `%s"n%d":0}`, v, twice))
		}
	}
	for _, n := range []int{maxDepth - 1, maxDepth, maxDepth + 1, 9999, 10000, 10001, 100000} {
		agree(t, []byte(strings.Repeat("[", n)+strings.Repeat("]", n)))
		agree(t, []byte(strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n)))
		agree(t, []byte(strings.Repeat("[", n)))
	}
}
