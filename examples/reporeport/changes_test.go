package reporeport

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo/gitrepotest"
)

// A commit changes the directories whose files it changes, and no others.
func TestChanges(t *testing.T) {
	commits := []struct{ files, want []string }{
		{[]string{"a/x", "b/c/d/e"}, []string{"a", "b", "b/c"}},
		{[]string{"a.txt"}, []string{"."}}, // which git sorts before a/
		{[]string{"a-b/x"}, []string{"a-b"}},
		{[]string{"b/c/d/f"}, []string{"b", "b/c"}},
		{[]string{"b/f"}, []string{"b"}},
		{[]string{"a"}, []string{".", "a"}}, // a file in its place
		{[]string{"b/c/"}, []string{"b", "b/c"}},
		{[]string{"b/c/"}, []string{"b", "b/c"}}, // another version of the submodule
		{nil, nil},
	}
	root := gitrepotest.Import(t, func(h *gitrepotest.History) {
		last := 0
		for i, c := range commits {
			change := gitrepotest.Change{Seconds: 1e9 + int64(i), Files: c.files, Message: fmt.Sprint(i)}
			if i > 0 {
				change.Parents = []int{last}
			}
			last = h.Commit(change)
		}
	})
	r, err := gitrepo.Open(t.Context(), root, "")
	require.NoError(t, err)
	defer r.Close()
	head, err := r.Head(t.Context())
	require.NoError(t, err)
	changes, i := newChanges(r), len(commits)
	for c, err := range r.Commits(t.Context(), head, nil) {
		require.NoError(t, err)
		i--
		dirs, err := changes.of(t.Context(), c)
		require.NoError(t, err)
		assert.Equal(t, commits[i].want, dirs, commits[i].files)
	}
	assert.Zero(t, i)
}
