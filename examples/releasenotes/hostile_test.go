//go:build unix

package releasenotes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo/gitrepotest"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// Commits that decompress to many times their size are refused for what they say of
// their size, or take no more than a file of the size that is read can.
func TestCommitsThatAreTooLarge(t *testing.T) {
	for name, declared := range map[string]int{"honest": 0, "lying": 300} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			gitrepotest.New(t, root)
			gitrepotest.SetHead(t, root, gitrepotest.LooseCommit(t, root, nil, strings.Repeat("x", 100<<20), declared))
			gitrepotest.TakesLess(t, 20<<20, func() {
				got := sagatest.Play(t, New(root), nil, sagatest.Func("range", func(a sagatest.Asked) sagatest.Answer {
					return sagatest.Accept("range", map[string]any{"range": "all"})
				}))
				assert.Contains(t, got.Text(), "is larger than this tool reads")
			})
		})
	}
}

// A commit with very many parents, each with a long message.
func TestCommitsThatWaitTakeLittle(t *testing.T) {
	root := t.TempDir()
	gitrepotest.New(t, root)
	var parents []plumbing.Hash
	for i := range 200 {
		parents = append(parents, gitrepotest.LooseCommit(t, root, nil, fmt.Sprint(i)+strings.Repeat("x", 200<<10), 0))
	}
	top := gitrepotest.LooseCommit(t, root, parents, "top", 0)
	r, err := gitrepo.Open(t.Context(), root, "")
	require.NoError(t, err)
	defer r.Close()
	var list []*gitrepo.Commit
	// There are 40 MB of messages.
	gitrepotest.TakesLess(t, 20<<20, func() { list, _, err = commits(t.Context(), r, "", top.String(), maxCommits) })
	require.NoError(t, err)
	assert.Len(t, list, maxCommits)
}

// What is no regular file is not waited for, and what is too large is not read.
func TestStrangeFilesInARepository(t *testing.T) {
	for _, name := range []string{"HEAD", "packed-refs", "refs/heads/master", "refs/tags/v1", "config", "objects/pack/pack-" + strings.Repeat("a", 40) + ".idx"} {
		for kind, make := range map[string]func(string) error{
			"pipe":      mkfifo,
			"directory": func(path string) error { return os.Mkdir(path, 0o777) },
			"huge": func(path string) error {
				f, err := os.Create(path)
				return errors.Join(err, f.Truncate(6<<30), f.Close())
			},
		} {
			t.Run(kind+" as "+name, func(t *testing.T) {
				root := t.TempDir()
				gitrepotest.New(t, root)
				path := filepath.Join(root, ".git", filepath.FromSlash(name))
				require.NoError(t, errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o777), make(path)))
				done := time.AfterFunc(20*time.Second, func() { panic("it hangs") })
				defer done.Stop()
				gitrepotest.TakesLess(t, 40<<20, func() {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					r, err := gitrepo.Open(ctx, root, "")
					if err == nil {
						_, err = spans(ctx, r)
						r.Close()
					}
					if err != nil { // some can be done without
						assert.NotEmpty(t, gitrepotest.Told(t, err))
					}
					assert.NoError(t, ctx.Err())
				})
			})
		}
	}
}

// A repository as git packs it, with deltas, reads as before it was packed.
func TestPackedRepository(t *testing.T) {
	root := t.TempDir()
	gitrepotest.New(t, root)
	g, err := git.PlainOpen(root)
	require.NoError(t, err)
	tree, err := g.Worktree()
	require.NoError(t, err)
	for i := range 30 {
		by := &object.Signature{Name: "Ann", Email: "ann@example.com", When: time.Unix(1700000000+int64(i), 0)}
		_, err := tree.Commit(fmt.Sprintf("Commit %d\n\n%s", i, strings.Repeat("the same words again ", 100)), &git.CommitOptions{Author: by, AllowEmptyCommits: true})
		require.NoError(t, err)
	}
	read := func() (subjects []string) {
		r, err := gitrepo.Open(t.Context(), root, "")
		require.NoError(t, err)
		defer r.Close()
		head, err := r.Head(t.Context())
		require.NoError(t, err)
		list, _, err := commits(t.Context(), r, "", head.String(), maxCommits)
		require.NoError(t, err)
		for _, c := range list {
			subjects = append(subjects, c.Subject)
		}
		return subjects
	}
	loose := read()
	require.Len(t, loose, 31)
	require.NoError(t, g.RepackObjects(&git.RepackConfig{OnlyDeletePacksOlderThan: time.Now()}))
	left, err := filepath.Glob(filepath.Join(root, ".git", "objects", "??"))
	require.NoError(t, err)
	for _, dir := range left {
		require.NoError(t, os.RemoveAll(dir))
	}
	assert.Equal(t, loose, read())
}
func mkfifo(path string) error { return syscall.Mkfifo(path, 0o666) }

// Notes that are a pipe would hang whoever opens it.
func TestNotesThatAreAPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, mkfifo(filepath.Join(dir, "x.md")))
	_, err := write(dir, "x.md", "text", "id", "")
	assert.Contains(t, gitrepotest.Told(t, err), "not a file")
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, _, err = gitrepo.OpenRegular(root, "x.md") // it became one after it was looked at
	assert.ErrorIs(t, err, gitrepo.ErrNotRegular)
}
