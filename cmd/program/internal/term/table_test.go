package term

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

var widths = []int{40, 60, 80, 100, 185}

// A table is never wider than the terminal, and breaks no word that fits.
func TestTablesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom(widths).Draw(t, "width")
		text := rapid.StringMatching(`[a-z日ü-]{0,60}( [a-z日ü./:-]{1,30}){0,12}`)
		n := rapid.IntRange(1, 6).Draw(t, "columns")
		var heads string
		var rows []string
		if rapid.Bool().Draw(t, "heads") {
			heads = strings.Join(strings.Fields("NAME TOOL SERVER SAVED KEPT STATE")[:n], "\t")
		}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			rows = append(rows, strings.Join(rapid.SliceOfN(text, n, n).Draw(t, "row"), "\t"))
		}
		out := table(width, heads, rows)
		words := map[string]bool{}
		for _, word := range strings.Fields(out) {
			words[word] = true
		}
		for line := range strings.Lines(out) {
			assert.LessOrEqual(t, ansi.StringWidth(line), width, "%q", line)
		}
		for _, word := range strings.Fields(strings.Join(rows, " ")) {
			if ansi.StringWidth(word) <= width/2 {
				assert.True(t, words[word], "%q in %q", word, out)
			}
		}
		without := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if heads == "" {
			assert.Equal(t, without(strings.Join(rows, " ")), without(out), "nothing is lost")
		}
	})
}

func TestTable(t *testing.T) {
	heads := "NAME\tSERVER\tSTATE"
	row := "20260728-150000-ABCDEF\thttp://127.0.0.1:8080/mcp\tasks: Which directories of the repository matter?"
	columns := "NAME                    SERVER                     STATE\n" +
		"20260728-150000-ABCDEF  http://127.0.0.1:8080/mcp  asks: Which directories of the repository matter?\n"
	assert.Equal(t, columns, table(0, heads, []string{row}))
	assert.Equal(t, columns, table(102, heads, []string{row}))
	assert.Equal(t, `NAME    20260728-150000-ABCDEF
SERVER  http://127.0.0.1:8080/mcp
STATE   asks: Which directories of the
        repository matter?

NAME    b
STATE   working
`, table(40, heads, []string{row, "b\t\tworking"}))
	assert.Equal(t, `* release_notes  [from=] [to=]  Reads a
                 repository and writes
                 its notes.
`, table(40, "", []string{"* release_notes\t[from=] [to=]\tReads a repository and writes its notes."}))
	assert.Equal(t, `serves      MCP 2026-07-28, 2025-11-25,
            and the saga proposal
built with  go
`, table(40, "", []string{"serves\tMCP 2026-07-28, 2025-11-25, and the saga proposal", "built with\tgo"}))
	assert.Equal(t, "N  1\n   what has no\n   head\n", table(14, "N\t", []string{"1\twhat has no head"}))
	assert.Equal(t, "abcde\nfghij\nkl", wrap("abcdefghijkl", 5))
	assert.Equal(t, "日本\n語", wrap("日本語", 5))
	assert.Less(t, len(wrap(strings.Repeat("e"+strings.Repeat("\u0301", 100), 100), 40)), 30_000)
}
