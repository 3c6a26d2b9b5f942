package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo/gitrepotest"
)

// A repository whose data lie elsewhere may be a way out of the root.
func TestRepositoriesThatBorrowAreRefused(t *testing.T) {
	outside := t.TempDir()
	gitrepotest.New(t, outside)
	objects := filepath.Join(outside, ".git", "objects")
	borrowing := map[string]func(dot string) error{
		"alternates": func(dot string) error {
			info := filepath.Join(dot, "objects", "info")
			return errors.Join(os.MkdirAll(info, 0o777), os.WriteFile(filepath.Join(info, "alternates"), []byte(objects+"\n"), 0o666))
		},
		"alternates by a link": func(dot string) error {
			info := filepath.Join(dot, "objects", "info")
			return errors.Join(os.MkdirAll(info, 0o777), os.Symlink("/dev/null", filepath.Join(info, "alternates")))
		},
		"objects by a link": func(dot string) error {
			own := filepath.Join(dot, "objects")
			return errors.Join(os.RemoveAll(own), os.Symlink(objects, own))
		},
		"packs by a link": func(dot string) error {
			own := filepath.Join(dot, "objects", "pack")
			return errors.Join(os.RemoveAll(own), os.Symlink(filepath.Join(objects, "pack"), own))
		},
		"references by a link": func(dot string) error {
			own := filepath.Join(dot, "refs")
			return errors.Join(os.RemoveAll(own), os.Symlink(filepath.Join(outside, ".git", "refs"), own))
		},
	}
	for name, borrow := range borrowing {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			gitrepotest.New(t, filepath.Join(root, "project"))
			_, err := Open(t.Context(), root, "project")
			require.NoError(t, err)
			require.NoError(t, borrow(filepath.Join(root, "project", ".git")))
			_, err = Open(t.Context(), root, "project")
			assert.Contains(t, gitrepotest.Told(t, err), "keeps its data elsewhere")
		})
	}
	t.Run("a linked worktree", func(t *testing.T) {
		root := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(root, "linked"), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(root, "linked", ".git"), []byte("gitdir: "+filepath.Join(outside, ".git/worktrees/linked")+"\n"), 0o666))
		_, err := Open(t.Context(), root, "linked")
		assert.Contains(t, gitrepotest.Told(t, err), "a linked worktree or a submodule")
	})
	t.Run("by the environment", func(t *testing.T) {
		root := t.TempDir()
		gitrepotest.New(t, filepath.Join(root, "project"))
		g, err := git.PlainOpen(outside)
		require.NoError(t, err)
		tree, err := g.Worktree()
		require.NoError(t, err)
		theirs, err := tree.Commit("A secret", &git.CommitOptions{Author: &object.Signature{Name: "Bob", When: time.Unix(1700000001, 0)}, AllowEmptyCommits: true})
		require.NoError(t, err)
		t.Setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects)
		t.Setenv("GIT_OBJECT_DIRECTORY", objects)
		t.Setenv("GIT_DIR", filepath.Join(outside, ".git"))
		r, err := Open(t.Context(), root, "project")
		require.NoError(t, err)
		defer r.Close()
		_, err = r.Commit(t.Context(), theirs)
		assert.Error(t, err, "git's environment is not heeded")
	})
}

// A commit that says that it is too large is not decompressed, however small its file is.
func TestLooseCommitsThatAreTooLarge(t *testing.T) {
	root := t.TempDir()
	gitrepotest.New(t, root)
	r := opened(t, root)
	for size, want := range map[int]string{maxObject - 1000: "", maxObject + 1: "is larger than this tool reads"} {
		_, err := r.Commit(t.Context(), gitrepotest.LooseCommit(t, root, nil, strings.Repeat("x", size), 0))
		if want == "" {
			require.NoError(t, err)
		} else {
			assert.Contains(t, gitrepotest.Told(t, err), want)
		}
	}
}

// Tags are kept without the messages of their commits.
func TestManyTags(t *testing.T) {
	root := t.TempDir()
	gitrepotest.New(t, root)
	var packed strings.Builder
	for i := range 200 {
		hash := gitrepotest.LooseCommit(t, root, nil, fmt.Sprint(i)+strings.Repeat("x", 200<<10), 0)
		fmt.Fprintf(&packed, "%s refs/tags/v%d\n", hash, i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, ".git", "packed-refs"), []byte(packed.String()), 0o666))
	r, err := Open(t.Context(), root, "")
	require.NoError(t, err)
	defer r.Close()
	var tags []Tag
	// There are 40 MB of messages.
	gitrepotest.TakesLess(t, 20<<20, func() { tags, err = r.Tags(t.Context()) })
	require.NoError(t, err)
	assert.Len(t, tags, 200)
}

// Reading ends with the turn, and is not taken for a fault of the repository.
func TestReadingEndsWithTheContext(t *testing.T) {
	root := t.TempDir()
	gitrepotest.New(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Open(ctx, root, "")
	require.NoError(t, err)
	defer r.Close()
	head, err := r.Head(ctx)
	require.NoError(t, err)
	cancel()
	_, err = r.Commit(ctx, head)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = r.files.Open("HEAD")
	assert.ErrorIs(t, err, context.Canceled)
	_, err = Open(ctx, root, "")
	assert.ErrorIs(t, err, context.Canceled)
}

// Alternates that appear after the repository was looked at are not followed.
func TestAlternatesAreNotFollowed(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	gitrepotest.New(t, outside)
	gitrepotest.New(t, root)
	theirs := gitrepotest.LooseCommit(t, outside, nil, "A secret", 0)
	r, err := Open(t.Context(), root, "")
	require.NoError(t, err)
	defer r.Close()
	info := filepath.Join(root, ".git", "objects", "info")
	require.NoError(t, errors.Join(os.MkdirAll(info, 0o777),
		os.WriteFile(filepath.Join(info, "alternates"), []byte(filepath.Join(outside, ".git", "objects")+"\n"), 0o666)))
	_, err = r.Commit(t.Context(), theirs)
	assert.ErrorIs(t, err, plumbing.ErrObjectNotFound)
	_, err = r.files.Open("../../etc/hostname")
	assert.Error(t, err)
	assert.NotErrorIs(t, err, fs.ErrNotExist)
}

// To order tags, as much is read as an honest repository needs, and no more.
func TestOrderingTagsIsBounded(t *testing.T) {
	root := t.TempDir()
	gitrepotest.New(t, root)
	var hashes []plumbing.Hash
	for i := range 50 {
		hashes = append(hashes, gitrepotest.LooseCommit(t, root, hashes[max(0, i-1):], "Change", 0))
	}
	r, err := Open(t.Context(), root, "")
	require.NoError(t, err)
	defer r.Close()
	tags := []Tag{{"a", hashes[0], time.Unix(1700000001, 0)}, {"b", hashes[49], time.Unix(1700000001, 0)}}
	budget := 30
	require.NoError(t, r.sortTags(t.Context(), tags, &budget))
	assert.LessOrEqual(t, budget, 0)
	assert.GreaterOrEqual(t, budget, -2, "one commit more and its parent")
}
