package searchhistory

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
	"github.com/mcpsaga/mcpsaga/internal/gittest"
)

var whole = search{perTurn: perTurn}

// opened returns a repository and where its history begins.
func opened(t *testing.T, root string) (*gitrepo.Repository, gitrepo.Position) {
	t.Helper()
	r, err := gitrepo.Open(t.Context(), root, "")
	require.NoError(t, err)
	newest, err := r.Newest(t.Context())
	require.NoError(t, err)
	return r, gitrepo.Position{Start: newest.Hash}
}

// pages are all pages of a search.
func pages(t *testing.T, root, text string) (list []*page) {
	t.Helper()
	r, at := opened(t, root)
	for {
		p, err := whole.find(t.Context(), r, text, at)
		require.NoError(t, err)
		list = append(list, p)
		if !p.more {
			return list
		}
		at = p.next
	}
}

// found are the hashes of commits on pages, as short as they are shown.
func found(list []*page) (hashes []string) {
	for _, p := range list {
		for _, line := range p.found {
			hashes = append(hashes, strings.Split(line, "`")[1])
		}
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
		list := pages(t, root, text)
		for i, p := range list {
			if i < len(list)-1 {
				assert.Len(t, p.found, perPage, text)
			}
			assert.True(t, len(list) == 1 || len(p.found) > 0, "no page is empty behind which nothing comes")
		}
		short := make([]string, len(commits))
		for i, hash := range commits {
			short[i] = hash[:10]
		}
		assert.ElementsMatch(t, short, found(list), text)
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
	assert.Len(t, pages(t, root, "same"), 2)
	assert.Len(t, pages(t, root, "older"), 1)
}

// A page is the same whenever it is asked for, whatever was committed meanwhile.
func TestPagesAreStable(t *testing.T) {
	root := gittest.Import(t, gittest.Long(200))
	r, at := opened(t, root)
	first, err := whole.find(t.Context(), r, "because", at)
	require.NoError(t, err)
	second, err := whole.find(t.Context(), r, "because", first.next)
	require.NoError(t, err)
	gittest.Git(t, root, nil, "commit", "-q", "--allow-empty", "-m", "because of this")
	r, _ = opened(t, root)
	for range 2 {
		again, err := whole.find(t.Context(), r, "because", first.next)
		require.NoError(t, err)
		assert.Equal(t, second, again)
	}
}

// A page ends where enough was looked at, even if nothing is found.
func TestPagesThatFindLittle(t *testing.T) {
	root := gittest.Import(t, func(h *gittest.History) {
		last := 0
		for i := range 3 * atLeast {
			c := gittest.Change{Seconds: 1e9 + int64(i), Message: fmt.Sprint(i)}
			if i > 0 {
				c.Parents = []int{last}
			}
			last = h.Commit(c)
		}
	})
	r, at := opened(t, root)
	s := search{perTurn: 2 * atLeast}
	p, err := s.find(t.Context(), r, "no such thing", at)
	require.NoError(t, err)
	assert.True(t, p.more)
	assert.Empty(t, p.found)
	assert.Equal(t, 2*atLeast, p.next.Visited)
	p, err = s.find(t.Context(), r, "no such thing", p.next)
	require.NoError(t, err)
	assert.False(t, p.more)

	// So does one whose turn has no time left, after a few.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	p, err = s.find(ctx, r, "no such thing", at)
	require.NoError(t, err)
	assert.True(t, p.more)
	assert.Equal(t, atLeast, p.next.Visited)
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
	for text, want := range map[string]int{
		"plain": 1, "[a-z]+": 1, "(x|y)": 1, "--all": 1, "%s": 1, "grüsse": 1, "KÖLN": 1, "日本": 1, "NEEDLE": 1, "xxend": 1,
		".*": 0, "\x00": 0, "-": 2, "$1 \\d": 1, "a.b": 0, strings.Repeat("x", 1<<20): 0, "\xff": 0,
	} {
		list := pages(t, root, text)
		assert.Len(t, found(list), want, "%.20q", text)
	}
	list := pages(t, root, "red")
	assert.Regexp(t, "^- `[0-9a-f]{10}` 2001-09-09 Ann: a\\\\\\[31mred", list[0].found[0])
	assert.NotContains(t, list[0].found[0], "\x1b")
	assert.NotContains(t, list[0].found[0], "<b>")
	assert.Contains(t, pages(t, root, "needle")[0].found[0], "\n  … in the body: needle")
	assert.Less(t, len(pages(t, root, "xxend")[0].found[0]), 300)
}
