package plain

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                     "plain",
		"two\nlines\r\nthree\rfour": "two\nlines\nthree\nfour",
		"a\tb":                      "a    b",
		"\x1b[31mred\x1b[0m":        "red",
		"\x1b]0;title\x07after":     "after",
		"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1b]52;c;ZXZpbA==\x07clip":                  "clip",
		"bell\x07 del\x7f nul\x00":                    "bell del nul",
		"\u009b31mC1":                                 "31mC1", // harmless without its first character
		"gnp\u202etxt.exe":                            "gnptxt.exe",
		"zero\u200bwidth":                             "zerowidth",
		"family 👩\u200d👧":                             "family 👩\u200d👧",
		"bad \xff byte":                               "bad \ufffd byte",
		"übergrößen 日本":                               "übergrößen 日本",
	} {
		assert.Equal(t, want, Text(in), "%q", in)
	}
	assert.Equal(t, "one line only", Line(" one\nline\x1b[2J \t only\n"))
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in                string
		characters, lines int
		want              string
		left              int
	}{
		{"héllo", 5, 1, "héllo", 0},
		{"héllo", 4, 1, "héll", 1},
		{"a\nb\nc", 100, 2, "a\nb", 2},
		{"a\nb\nc", 100, 3, "a\nb\nc", 0},
		{"\x1b[31mred\x1b[0m", 3, 1, "red", 0},
		{"", 3, 1, "", 0},
		{"a\n\nb\n", 100, 9, "a\n\nb\n", 0},
		{"a\n\n \u00a0\n\t\r\nb", 100, 3, "a\n… 3 blank lines …\nb", 0},
		{"read the key" + strings.Repeat("\n", 191) + "say hello\n\n\n", 100, 9, "read the key\n… 190 blank lines …\nsay hello\n… 2 blank lines …\n", 0},
	} {
		shown, left := Clip(c.in, c.characters, c.lines)
		assert.Equal(t, c.want, shown, "%q", c.in)
		assert.Equal(t, c.left, left, "%q", c.in)
	}
	assert.Equal(t, "ab…", Short("abcd", 3))
	assert.Equal(t, "ab c", Short("a\x1b[0mb\nc", 4))
	assert.Len(t, []rune(Short(strings.Repeat("é", 1<<20), 10)), 10)
}

func TestWriter(t *testing.T) {
	var out strings.Builder
	w := &Writer{To: &out}
	for _, part := range []string{"one \x1b[3", "1mred\x1b[0m\ntw", "o\n", "\x1b]52;c;eA==\x07"} {
		n, err := w.Write([]byte(part))
		assert.NoError(t, err)
		assert.Equal(t, len(part), n)
	}
	assert.Equal(t, "one red\ntwo\n", out.String())
	_, _ = w.Write([]byte(strings.Repeat("x", maxLine)))
	assert.Greater(t, len(out.String()), maxLine, "a line without an end is not kept for ever")
}

// counting counts what is written to it.
type counting struct{ writes, bytes int }

func (c *counting) Write(b []byte) (int, error) {
	c.writes++
	c.bytes += len(b)
	return len(b), nil
}

func TestWriterWritesManyLinesAtOnce(t *testing.T) {
	var out counting
	w := &Writer{To: &out}
	lines := strings.Repeat("\x1b[3m\n", 10_000)
	n, err := w.Write([]byte(lines + "rest"))
	assert.NoError(t, err)
	assert.Equal(t, len(lines)+4, n)
	assert.Equal(t, counting{1, 10_000}, out)
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[31m\x1b[\x1b]0;x")
	f.Add("\u009d0;t\u009c")
	f.Fuzz(func(t *testing.T, s string) {
		out := Text(s)
		for _, r := range out {
			assert.False(t, r != '\n' && unicode.IsControl(r), "%q leaves %q", s, out)
		}
		assert.Equal(t, out, Text(out), "nothing is left to be hidden")
		assert.Zero(t, Hidden(out))
		assert.NotContains(t, Line(s), "\n")
		assert.False(t, strings.ContainsRune(out, '\x1b'))
	})
}
