package hostile_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// shape is JSON text of a size, as hostile as its name says.
type shape struct {
	name string
	make func(size int) string
}

func fill(unit string, size int) string { return strings.Repeat(unit, max(size/len(unit), 1)) }

func quoted(unit string) func(int) string {
	return func(size int) string { return `"` + fill(unit, size) + `"` }
}

// listOf makes an array of one element again and again.
func listOf(element string) func(int) string {
	return func(size int) string { return "[" + strings.TrimSuffix(fill(element+",", size), ",") + "]" }
}

// nested puts something inside itself, to a depth, as often as the size allows, and
// once in any case.
func nested(open, core, end string, depth int) func(int) string {
	return listOf(strings.Repeat(open, depth) + core + strings.Repeat(end, depth))
}

// counted makes an array or an object of elements that differ.
func counted(open, end string, element func(i int) string) func(int) string {
	return func(size int) string { return atMost(math.MaxInt, size, open, end, element) }
}

// upTo makes an array of so many elements at most.
func upTo(n int, element func(i int) string) func(int) string {
	return func(size int) string { return atMost(n, size, "[", "]", element) }
}

func atMost(n, size int, open, end string, element func(i int) string) string {
	var b strings.Builder
	b.WriteString(open)
	for i := 0; i < n && (i == 0 || b.Len() < size); i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(element(i))
	}
	return b.String() + end
}

// urisOf are texts that begin like URIs of a scheme. No longer ones are matched.
func urisOf(scheme string) (all []shape) {
	for _, s := range texts {
		all = append(all, shape{s.name, func(size int) string { return `"` + scheme + s.make(min(size, 2000))[1:] }})
	}
	return all
}

var texts = []shape{
	{"long text", quoted("a")},
	{"text of commas", quoted("a,")},
	{"text of slashes", quoted("/a")},
	{"text of percent signs", quoted("%41")},
	{"text of wide characters", quoted("é")},
	{"text of emoji", quoted("😀")},
	{"text of escaped letters", quoted(`\u0061`)},
	{"text of escaped quotes", quoted(`\"`)},
	{"text of backslashes", quoted(`\\`)},
	{"text of escaped emoji", quoted(`\ud83d\ude00`)},
	{"text of control characters", quoted(`\u0001`)},
	{"text of HTML", quoted(`<`)},
	{"text of line ends", quoted(`\n`)},
	{"text of line separators", quoted("\u2028")},
	{"text of base64", quoted("QUJD")},
	{"text of spaces", quoted(" ")},
	{"text that compresses badly", func(size int) string {
		var b strings.Builder
		for x := uint32(1); b.Len() < size; {
			x = x*1664525 + 1013904223
			b.WriteByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[x>>26])
		}
		return `"` + b.String() + `"`
	}},
}

var numbers = []shape{
	{"long integer", func(size int) string { return strings.Repeat("7", max(size, 1)) }},
	{"long fraction", func(size int) string { return "0." + strings.Repeat("7", max(size, 1)) }},
	{"large exponent", func(size int) string { return "1e" + strings.Repeat("9", max(size, 1)) }},
}

var values = append(append([]shape{
	{"deep arrays", nested("[", "", "]", 9900)},
	{"arrays 60 deep", nested("[", "", "]", 60)},
	{"deep objects", nested(`{"a":`, "1", "}", 9900)},
	{"objects 60 deep", nested(`{"a":`, "1", "}", 60)},
	{"array of small numbers", listOf("0")},
	{"array of floats", listOf("0.1234567890123456789e-300")},
	{"array of large floats", listOf("1e308")},
	{"array of long integers", listOf("12345678901234567890")},
	{"array of different numbers", counted("[", "]", strconv.Itoa)},
	{"array of empty objects", listOf("{}")},
	{"array of empty texts", listOf(`""`)},
	{"array of different texts", counted("[", "]", func(i int) string { return `"` + strconv.Itoa(i) + `"` })},
	{"array of literals", listOf("null")},
	{"array of spaced objects", listOf(`{   "a"   :   1   }`)},
	{"object of many members", counted("{", "}", func(i int) string { return fmt.Sprintf(`"%d":0`, i) })},
	{"object in the wrong order", counted("{", "}", func(i int) string { return fmt.Sprintf(`"%07d":0`, 9999999-i) })},
	{"object of long names", counted("{", "}", func(i int) string { return fmt.Sprintf(`"%s%d":0`, strings.Repeat("a", 500), i) })},
	{"object of escaped names", counted("{", "}", func(i int) string { return fmt.Sprintf(`"\u0061%d":0`, i) })},
	{"object of texts", counted("{", "}", func(i int) string { return fmt.Sprintf(`"%d":"x"`, i) })},
	{"object of objects", counted("{", "}", func(i int) string { return fmt.Sprintf(`"%d":{}`, i) })},
	{"list below a long name", func(size int) string { return `{"` + fill("a", size/2) + `":` + listOf("null")(size/2) + `}` }},
	{"name twice", counted(`{"z":0,`, `,"z":1}`, func(i int) string { return fmt.Sprintf(`"%d":0`, i) })},
}, texts...), numbers...)
