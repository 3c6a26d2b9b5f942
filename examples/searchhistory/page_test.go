package searchhistory

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// hashesOf are the hashes of commits in texts, as short as they are shown.
func hashesOf(texts ...string) (hashes []string) {
	for _, found := range short.FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		hashes = append(hashes, found[1])
	}
	return hashes
}

// byGit are the commits that git finds.
func byGit(t *testing.T, root string, args ...string) []string {
	t.Helper()
	return strings.Fields(gittest.Git(t, root, nil, append([]string{"log", "--format=%H", "--abbrev=10", "-i", "-F"}, args...)...))
}

// What is found is what git finds, each once, on pages of twenty but for the last.
func TestPages(t *testing.T) {
	root := gittest.Import(t, gittest.Long(900))
	for text, commits := range map[string][]string{
		"for reason 7":   byGit(t, root, "--grep=for reason 7"),
		"BECAUSE":        byGit(t, root, "--grep=because"),
		"Change 33":      byGit(t, root, "--grep=change 33"),
		"author 12":      byGit(t, root, "--author=author 12"),
		"no such thing":  nil,
		"merge side at ": byGit(t, root, "--grep=merge side at"),
	} {
		list := parts(t, New(root), args{Text: text})
		for i, p := range list {
			if i < len(list)-1 {
				assert.Len(t, hashesOf(p), perPage, text)
			}
			assert.True(t, len(list) == 1 || len(hashesOf(p)) > 0, "no page is empty behind which nothing comes")
		}
		want := make([]string, len(commits))
		for i, hash := range commits {
			want[i] = hash[:10]
		}
		if len(want) > maxFound {
			assert.Len(t, hashesOf(list...), maxFound)
			want = hashesOf(list...)
		}
		assert.ElementsMatch(t, want, hashesOf(list...), text)
	}
}

// A page that is full is the last if nothing comes behind it.
func TestFullPagesThatAreTheLast(t *testing.T) {
	root := gittest.Import(t, func(h *gittest.History) {
		last := 0
		for i := range 2*perPage + 5 {
			c := gittest.Change{Seconds: 1e9 + int64(i), Message: "same"}
			if i < 5 {
				c.Message = "older"
			}
			if i > 0 {
				c.Parents = []int{last}
			}
			last = h.Commit(c)
		}
	})
	assert.Len(t, parts(t, New(root), args{Text: "same"}), 2)
	assert.Len(t, parts(t, New(root), args{Text: "older"}), 1)
}

// A page is the same whenever it is asked for, whatever was committed meanwhile.
func TestPagesAreStable(t *testing.T) {
	root := gittest.Import(t, gittest.Long(200))
	start := gittest.Git(t, root, nil, "rev-parse", "HEAD")
	second := func() string {
		at := state{At: position{Start: start, Visited: 50}, Found: 20}
		return sagatest.Player{}.At("more", at).Play(t, New(root), args{Text: "because"}).Text()
	}
	first := second()
	gittest.Git(t, root, nil, "commit", "-q", "--allow-empty", "-m", "because of this")
	assert.Equal(t, first, second())
}

// A page ends after a few commits if its turn has no time left.
func TestPagesOfShortTurns(t *testing.T) {
	root := gittest.Import(t, gittest.Long(3*atLeast))
	program, err := New(root).Compile()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	out, err := program.Start(ctx, engine.Call{ID: saga.ID{1}, Now: time.Now(), Arguments: []byte(`{"text":"no such thing"}`)})
	require.NoError(t, err)
	require.NotNil(t, out.Position)
	assert.Contains(t, string(out.Position.Encode().State), fmt.Sprintf(`"visited":%d`, atLeast))
}

// A text is looked for as it is, and what is shown of commits is one line of Markdown each.
func TestTexts(t *testing.T) {
	messages := []string{
		"plain", "[a-z]+ (x|y) $1 \\d", "--all -n 1", "100% %s %d", "GRÜSSE aus Köln", "日本語", "first\n\nin the body: needle\nmore",
		"a\x1b[31mred\x1b[0m `tick` <b>bold</b>", "ends in a very long line: " + strings.Repeat("x", 5000) + "end",
	}
	root := gittest.Import(t, func(h *gittest.History) {
		last := 0
		for i, m := range messages {
			c := gittest.Change{Seconds: 1e9 + int64(i), Message: m}
			if i > 0 {
				c.Parents = []int{last}
			}
			last = h.Commit(c)
		}
	})
	search := func(text string) string { return strings.Join(parts(t, New(root), args{Text: text}), "\n") }
	for text, want := range map[string]int{
		"plain": 1, "[a-z]+": 1, "(x|y)": 1, "--all": 1, "%s": 1, "grüsse": 1, "KÖLN": 1, "日本": 1, "NEEDLE": 1, "xxend": 1,
		".*": 0, "\x00": 0, "-": 2, "$1 \\d": 1, "a.b": 0,
	} {
		assert.Len(t, hashesOf(search(text)), want, "%.20q", text)
	}
	red := search("red")
	assert.Regexp(t, "(?m)^- `[0-9a-f]{10}` 2001-09-09 Ann: a\\\\\\[31mred", red)
	assert.NotContains(t, red, "\x1b")
	assert.NotContains(t, red, "<b>")
	assert.Contains(t, search("needle"), "\n  … in the body: needle")
	assert.Less(t, len(search("xxend")), 400)
}
