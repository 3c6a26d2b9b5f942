// Package gitrepo reads git repositories for the examples: commits, tags, directories and
// whole histories. It runs no program and heeds no configuration, neither the user's nor
// the repository's, and reads regular files below .git only, up to limits: a repository may
// have been made to do harm. Its errors are for the caller of a
// tool to read, but for those of the context and of the machine.
//
//	r, err := gitrepo.Open(ctx, root, "project")
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	head, err := r.Head(ctx)
package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Repository is a git repository under the configured root, opened for reading. It is for
// one goroutine.
type Repository struct {
	// Dir is the work tree: absolute, without symbolic links.
	Dir   string
	git   *git.Repository
	files *gitFiles
	packs packs
	// recent are commits that were read lately.
	recent map[plumbing.Hash]*Commit
}

// Open opens the repository at path, relative to root, until it is closed or ctx
// ends. A path or a link that leads out of root is refused, as is a repository whose
// data lie elsewhere.
func Open(ctx context.Context, root, path string) (*Repository, error) {
	if path == "" {
		path = "."
	}
	if !filepath.IsLocal(path) {
		return nil, saga.Failf("The repository %q is not a path below the server's root. Give its path from there, or none for the root itself.", path)
	}
	base, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, fmt.Errorf("the root of repositories: %w", err)
	}
	if base, err = filepath.Abs(base); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(base, path))
	if err != nil {
		return nil, saga.Failf("There is no directory %q below the server's root.", path)
	}
	if rel, err := filepath.Rel(base, dir); err != nil || !filepath.IsLocal(rel) {
		return nil, saga.Failf("The repository %q leads out of the server's root by a link. Name one that is below the root.", path)
	}
	dot := filepath.Join(dir, git.GitDirName)
	if info, err := os.Lstat(dot); err == nil && info.Mode().IsRegular() {
		return nil, saga.Failf("%q is a linked worktree or a submodule: its .git is a file that says where the repository is, perhaps outside the server's root. Name the repository itself.", path)
	} else if err != nil || !info.IsDir() {
		if path == "." {
			return nil, saga.Failf("The server's root of repositories is not a git repository itself; name one below it with the argument repo.")
		}
		return nil, saga.Failf("%q is not a git repository: it has no directory .git of its own.", path)
	}
	if elsewhere(dot) {
		return nil, saga.Failf("The git repository %q keeps its data elsewhere (links or alternates), perhaps outside the server's root.", path)
	}
	files, err := newGitFiles(ctx, dot)
	if err != nil {
		return nil, err
	}
	recent := cache.NewObjectLRU(4 * cache.MiByte)
	g, err := git.Open(filesystem.NewStorage(looseFiles{files}, recent), nil)
	if err != nil {
		_ = files.root.Close()
		return nil, Unreadable(ctx, fmt.Sprintf("The git repository %q", path), err)
	}
	return &Repository{Dir: dir, git: g, files: files, packs: packs{files: files, cache: recent}, recent: map[plumbing.Hash]*Commit{}}, nil
}

// Close closes what is open of the repository.
func (r *Repository) Close() {
	r.packs.close()
	_ = r.files.root.Close()
}

// ErrUnreadable is wrapped by errors that say of something in a repository that it is
// missing, broken or too large.
var ErrUnreadable = errors.New("unreadable")

// Unreadable is the error for what cannot be read, which wraps [ErrUnreadable] and is for the
// caller to read; but if the turn was stopped from outside and can be taken again, it is why.
func Unreadable(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errTooLarge):
		return saga.Fail(what+" is larger than this tool reads.", ErrUnreadable)
	}
	return saga.Fail(what+" cannot be read.", ErrUnreadable)
}

// elsewhere reports whether a git directory borrows from others: by links in place of
// its own parts, or by alternates. (Those that git takes from its environment, this
// package does not know.)
func elsewhere(dir string) bool {
	for _, part := range []string{"HEAD", "refs", "packed-refs", "objects", "objects/pack", "objects/info"} {
		if info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(part))); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	info, err := os.Lstat(filepath.Join(dir, "objects", "info", "alternates"))
	return err == nil && (info.Size() > 0 || !info.Mode().IsRegular())
}
