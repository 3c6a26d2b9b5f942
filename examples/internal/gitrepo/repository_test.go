package gitrepo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
)

// A repository whose data lie elsewhere may be a way out of the root.
func TestRepositoriesThatBorrowAreRefused(t *testing.T) {
	outside := t.TempDir()
	gittest.New(t, outside)
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
			gittest.New(t, filepath.Join(root, "project"))
			_, err := Open(t.Context(), root, "project")
			require.NoError(t, err)
			require.NoError(t, borrow(filepath.Join(root, "project", ".git")))
			_, err = Open(t.Context(), root, "project")
			assert.Contains(t, gittest.Told(t, err), "keeps its data elsewhere")
		})
	}
	t.Run("a linked worktree", func(t *testing.T) {
		root := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(root, "linked"), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(root, "linked", ".git"), []byte("gitdir: "+filepath.Join(outside, ".git/worktrees/linked")+"\n"), 0o666))
		_, err := Open(t.Context(), root, "linked")
		assert.Contains(t, gittest.Told(t, err), "a linked worktree or a submodule")
	})
	t.Run("by the environment", func(t *testing.T) {
		root := t.TempDir()
		gittest.New(t, filepath.Join(root, "project"))
		theirs := gittest.RawCommit(t, outside, nil, "A secret", 1700000001)
		t.Setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects)
		t.Setenv("GIT_OBJECT_DIRECTORY", objects)
		t.Setenv("GIT_DIR", filepath.Join(outside, ".git"))
		r, err := Open(t.Context(), root, "project")
		require.NoError(t, err)
		for _, err := range r.Log(t.Context(), Log{From: theirs, Limit: 1}) {
			assert.Error(t, err, "git's environment is not heeded")
		}
	})
}

// Reading ends with the turn, and is not taken for a fault of the repository.
func TestReadingEndsWithTheContext(t *testing.T) {
	root := t.TempDir()
	gittest.New(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Open(ctx, root, "")
	require.NoError(t, err)
	head, err := r.Head(ctx)
	require.NoError(t, err)
	cancel()
	_, err = r.Head(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = r.Tags(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	for _, err := range r.Log(ctx, Log{From: head.Hash, Limit: 1}) {
		assert.ErrorIs(t, err, context.Canceled)
	}
	_, err = Open(ctx, root, "")
	assert.ErrorIs(t, err, context.Canceled)
}
