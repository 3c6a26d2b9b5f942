package gitrepo

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
)

func opened(t testing.TB, root string) *Repository {
	t.Helper()
	r, err := Open(t.Context(), root, "")
	require.NoError(t, err)
	return r
}

// logged are the commits of a log that begins at HEAD.
func logged(t testing.TB, r *Repository, l Log) (list []*Commit) {
	t.Helper()
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	l.From = head.Hash
	if l.Limit == 0 {
		l.Limit = 1 << 30
	}
	for c, err := range r.Log(t.Context(), l) {
		require.NoError(t, err)
		list = append(list, c)
	}
	return list
}

func hashes(list []*Commit) (hashes []string) {
	for _, c := range list {
		hashes = append(hashes, c.Hash)
	}
	return hashes
}

// A log has what git's own has, and goes on where it was.
func TestLog(t *testing.T) {
	root := gittest.Import(t, gittest.Long(300))
	r := opened(t, root)
	all := hashes(logged(t, r, Log{}))
	assert.Equal(t, strings.Fields(gittest.Git(t, root, nil, "rev-list", "HEAD")), all)
	for _, n := range []int{70, 299, 301} {
		var parts []string
		for skip := 0; skip <= len(all); skip += n {
			parts = append(parts, hashes(logged(t, r, Log{Skip: skip, Limit: n, Dirs: true}))...)
		}
		assert.Equal(t, all, parts, n)
	}
	merges := strings.Fields(gittest.Git(t, root, nil, "rev-list", "--merges", "HEAD"))
	assert.Len(t, logged(t, r, Log{NoMerges: true}), len(all)-len(merges))
	assert.Equal(t, all[:10], hashes(logged(t, r, Log{Not: all[10], Limit: 10})))
	for c, err := range r.Log(t.Context(), Log{From: strings.Repeat("12", 20), Limit: 5}) {
		assert.Nil(t, c)
		assert.Contains(t, gittest.Told(t, err), "cannot be read")
	}
}

// A caller that has seen enough does not wait for the rest.
func TestLogsThatAreNotReadToTheirEnd(t *testing.T) {
	r := opened(t, gittest.Import(t, gittest.Long(300)))
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	n := 0
	for _, err := range r.Log(t.Context(), Log{From: head.Hash, Limit: 300, Dirs: true}) {
		require.NoError(t, err)
		if n++; n == 3 {
			break
		}
	}
	assert.Equal(t, 3, n)
}

// A shallow clone is read as far as it goes. What its first commit changes is not known.
func TestShallowClones(t *testing.T) {
	root, clone := gittest.Import(t, gittest.Long(30)), t.TempDir()
	gittest.Git(t, clone, nil, "clone", "-q", "--depth", "3", "file://"+root, ".")
	r := opened(t, clone)
	assert.True(t, r.Shallow)
	list := logged(t, r, Log{Dirs: true})
	assert.Equal(t, gittest.Git(t, clone, nil, "rev-list", "--count", "HEAD"), fmt.Sprint(len(list)))
	assert.Empty(t, list[len(list)-1].Dirs)
	assert.NotEmpty(t, list[0].Dirs)
}

// Commits in other encodings read as git shows them, and what is broken is shown as missing.
func TestEncodings(t *testing.T) {
	root := gittest.Import(t, func(h *gittest.History) {
		last := h.Commit(gittest.Change{Seconds: 1, Author: "J\xfcrgen", Encoding: "ISO-8859-1", Message: "Gr\xfc\xdfe"})
		last = h.Commit(gittest.Change{Seconds: 2, Parents: []int{last}, Encoding: "Shift_JIS", Message: "\x93\xfa\x96\x7b"})
		last = h.Commit(gittest.Change{Seconds: 3, Parents: []int{last}, Encoding: "no such thing", Message: "ok \xff"})
		h.Commit(gittest.Change{Seconds: 4, Parents: []int{last}, Message: "broken \xff"})
	})
	var said []string
	for _, c := range logged(t, opened(t, root), Log{}) {
		said = append(said, c.Author+": "+c.Subject)
	}
	assert.Equal(t, []string{"Ann: broken \uFFFD", "Ann: ok \uFFFD", "Ann: 日本", "Jürgen: Grüße"}, said)
}

// A commit changes the directories whose files it changes, and no others.
func TestDirs(t *testing.T) {
	commits := []struct{ files, want []string }{
		{[]string{"a/x", "b/c/d/e"}, []string{"a", "b", "b/c"}},
		{[]string{"a.txt"}, []string{"."}},
		{[]string{"a-b/x"}, []string{"a-b"}},
		{[]string{"b/c/d/f"}, []string{"b", "b/c"}},
		{[]string{"b/f"}, []string{"b"}},
		{[]string{"a"}, []string{".", "a"}}, // a file in its place
		{nil, nil},
	}
	root := gittest.Import(t, func(h *gittest.History) {
		last := 0
		for i, c := range commits {
			change := gittest.Change{Seconds: 1e9 + int64(i), Files: c.files, Message: fmt.Sprint(i)}
			if i > 0 {
				change.Parents = []int{last}
			}
			last = h.Commit(change)
		}
	})
	list := logged(t, opened(t, root), Log{Dirs: true})
	require.Len(t, list, len(commits))
	for i, c := range commits {
		assert.Equal(t, c.want, list[len(list)-1-i].Dirs, c.files)
	}
}
