package gitrepo

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo/gitrepotest"
)

func opened(t testing.TB, root string) *Repository {
	t.Helper()
	r, err := Open(t.Context(), root, "")
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// walked is a whole history in one walk.
func walked(t testing.TB, r *Repository) (hashes []string) {
	t.Helper()
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	for c, err := range r.Commits(t.Context(), head, nil) {
		require.NoError(t, err)
		hashes = append(hashes, c.Hash.String())
	}
	return hashes
}

// inParts is the same history, n commits at a time, each part in a walk of its own that
// begins where a position says that came through JSON.
func inParts(t testing.TB, r *Repository, n int) (hashes []string, largest int) {
	t.Helper()
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	at := Position{Start: head.String(), Next: []string{head.String()}}
	for {
		w, err := r.Resume(t.Context(), at)
		require.NoError(t, err)
		for range n {
			c, err := w.Next(t.Context())
			if err != nil {
				return hashes, largest
			}
			hashes = append(hashes, c.Hash.String())
		}
		encoded, err := json.Marshal(w.Position())
		require.NoError(t, err)
		largest = max(largest, len(encoded))
		at = Position{}
		require.NoError(t, json.Unmarshal(encoded, &at))
	}
}

// A walk visits what git's own does, and goes on where it was.
func TestWalk(t *testing.T) {
	root := gitrepotest.Import(t, gitrepotest.Long(1500))
	r := opened(t, root)
	all := walked(t, r)
	assert.ElementsMatch(t, strings.Fields(gitrepotest.Git(t, root, nil, "rev-list", "HEAD")), all)
	for _, n := range []int{1, 7, 400} {
		parts, largest := inParts(t, r, n)
		assert.Equal(t, all, parts, n)
		assert.Less(t, largest, 400, "a position is small")
	}
}

// Where clocks were wrong, commits come before those that descend from them. They come once
// all the same, wherever the walk is cut.
func TestWalkWhereClocksWereWrong(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 0))
		root := t.TempDir()
		gitrepotest.New(t, root)
		var hashes []plumbing.Hash
		for i := range 40 {
			var parents []plumbing.Hash
			if i > 0 {
				for range 1 + random.IntN(2) {
					parents = append(parents, hashes[max(0, i-1-random.IntN(8))])
				}
			}
			hashes = append(hashes, gitrepotest.LooseCommitAt(t, root, parents, fmt.Sprint(i), 0, 1700000000+random.Int64N(10)))
		}
		// One that leads to all of them.
		gitrepotest.SetHead(t, root, gitrepotest.LooseCommit(t, root, hashes, "top", 0))
		r := opened(t, root)
		all := walked(t, r)
		require.Len(t, all, len(hashes)+1)
		for _, n := range []int{1, 4, 13} {
			parts, _ := inParts(t, r, n)
			require.Equal(t, all, parts, "seed %d, %d at a time", seed, n)
		}
	}
}

// A position is bounded, even where very much comes next.
func TestPositionsAreBounded(t *testing.T) {
	root := t.TempDir()
	gitrepotest.New(t, root)
	var parents []plumbing.Hash
	for i := range 2 * maxNext {
		parents = append(parents, gitrepotest.LooseCommitAt(t, root, nil, fmt.Sprint(i), 0, 1600000000+int64(i)))
	}
	gitrepotest.SetHead(t, root, gitrepotest.LooseCommit(t, root, parents, "top", 0))
	r := opened(t, root)
	parts, largest := inParts(t, r, 50)
	assert.Equal(t, walked(t, r), parts)
	assert.Less(t, largest, maxNext*44+200)
	assert.Greater(t, largest, 200*44, "small ones say what comes next")
}

// What was committed meanwhile is not visited, and what has gone is said to have.
func TestGoingOnInAnotherHistory(t *testing.T) {
	root := gitrepotest.Import(t, gitrepotest.Long(30))
	r := opened(t, root)
	all := walked(t, r)
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	w, err := r.Walk(t.Context(), head, nil)
	require.NoError(t, err)
	for range 10 {
		_, err = w.Next(t.Context())
		require.NoError(t, err)
	}
	at := w.Position()
	gitrepotest.SetHead(t, root, gitrepotest.LooseCommit(t, root, []plumbing.Hash{head}, "newer", 0))
	w, err = opened(t, root).Resume(t.Context(), at)
	require.NoError(t, err)
	c, err := w.Next(t.Context())
	require.NoError(t, err)
	assert.Equal(t, all[10], c.Hash.String())

	other := t.TempDir()
	gitrepotest.New(t, other)
	for name, p := range map[string]Position{
		"with what comes next": at,
		"without":              {Start: at.Start, Visited: at.Visited},
	} {
		_, err = opened(t, other).Resume(t.Context(), p)
		assert.Contains(t, gitrepotest.Told(t, err), "Begin again", name)
	}
	// One that never was: the history has fewer commits.
	_, err = r.Resume(t.Context(), Position{Start: at.Start, Visited: 1000})
	assert.Contains(t, gitrepotest.Told(t, err), "Begin again")
}

// A shallow clone is read as far as it goes.
func TestShallowClones(t *testing.T) {
	root, clone := gitrepotest.Import(t, gitrepotest.Long(30)), t.TempDir()
	gitrepotest.Git(t, clone, nil, "clone", "-q", "--depth", "3", "file://"+root, ".")
	r := opened(t, clone)
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	w, err := r.Walk(t.Context(), head, nil)
	require.NoError(t, err)
	n := 0
	for _, err = w.Next(t.Context()); err == nil; _, err = w.Next(t.Context()) {
		n++
	}
	assert.Equal(t, gitrepotest.Git(t, clone, nil, "rev-list", "--count", "HEAD"), fmt.Sprint(n))
	assert.Positive(t, w.Position().Missing)
}

// Commits in other encodings read as git shows them, and what is broken is shown as missing.
func TestEncodings(t *testing.T) {
	root := gitrepotest.Import(t, func(h *gitrepotest.History) {
		last := h.Commit(gitrepotest.Change{Seconds: 1, Author: "J\xfcrgen", Encoding: "ISO-8859-1", Message: "Gr\xfc\xdfe"})
		last = h.Commit(gitrepotest.Change{Seconds: 2, Parents: []int{last}, Encoding: "Shift_JIS", Message: "\x93\xfa\x96\x7b"})
		last = h.Commit(gitrepotest.Change{Seconds: 3, Parents: []int{last}, Encoding: "no such thing", Message: "ok \xff"})
		h.Commit(gitrepotest.Change{Seconds: 4, Parents: []int{last}, Message: "broken \xff"})
	})
	r := opened(t, root)
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	var said []string
	for c, err := range r.Commits(t.Context(), head, nil) {
		require.NoError(t, err)
		said = append(said, c.Author+": "+c.Subject)
	}
	assert.Equal(t, []string{"Ann: broken \uFFFD", "Ann: ok \uFFFD", "Ann: 日本", "Jürgen: Grüße"}, said)
}

// Directories are read with what is in them, and those that are missing or too large are
// said to be.
func TestTrees(t *testing.T) {
	root := gitrepotest.Import(t, func(h *gitrepotest.History) {
		h.Commit(gitrepotest.Change{Seconds: 1, Files: []string{"a.txt", "dir/b.txt", "module/"}})
	})
	r := opened(t, root)
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	c, err := r.Commit(t.Context(), head)
	require.NoError(t, err)
	entries, err := r.Tree(t.Context(), c.Tree)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, fmt.Sprintf("%s %t %t", e.Name, e.Dir, e.Module))
	}
	assert.Equal(t, []string{"a.txt false false", "dir true false", "module false true"}, names)
	_, err = r.Tree(t.Context(), plumbing.NewHash("1234"))
	assert.Contains(t, gitrepotest.Told(t, err), "cannot be read")

	many := gitrepotest.Import(t, func(h *gitrepotest.History) {
		var files []string
		for i := range 3000 {
			files = append(files, fmt.Sprintf("%s%d", strings.Repeat("x", 180), i))
		}
		h.Commit(gitrepotest.Change{Seconds: 1, Files: files})
	})
	r = opened(t, many)
	head, err = r.Head(t.Context())
	require.NoError(t, err)
	c, err = r.Commit(t.Context(), head)
	require.NoError(t, err)
	_, err = r.Tree(t.Context(), c.Tree)
	assert.Contains(t, gitrepotest.Told(t, err), "larger than this tool reads")
}
