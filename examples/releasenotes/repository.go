package releasenotes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/mcpsaga/mcpsaga/saga"
)

// repository is a git repository under the configured root, opened for reading.
type repository struct {
	git *git.Repository
	dir string // absolute, without symbolic links
}

// open opens the repository at path, relative to root. A path or a link that
// leads out of root is refused, as is a repository whose data lie elsewhere.
func open(root, path string) (*repository, error) {
	if path == "" {
		path = "."
	}
	if !filepath.IsLocal(path) {
		return nil, saga.Failf("The repository %q is not a path below the server's root.", path)
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
		return nil, saga.Failf("The repository %q is not below the server's root.", path)
	}
	if info, err := os.Lstat(filepath.Join(dir, git.GitDirName)); err != nil || !info.IsDir() {
		return nil, saga.Failf("%q is not a git repository: it has no directory .git of its own.", path)
	}
	if elsewhere(filepath.Join(dir, git.GitDirName)) {
		return nil, saga.Failf("The git repository %q keeps its data elsewhere (links or alternates), perhaps outside the server's root.", path)
	}
	g, err := git.PlainOpen(dir)
	if err != nil {
		return nil, saga.Failf("The git repository %q cannot be read.", path)
	}
	return &repository{git: g, dir: dir}, nil
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

// tag is a release: a tag that leads to a commit.
type tag struct {
	name   string
	commit *object.Commit
}

// tags returns the repository's tags, the newest commit first.
func (r *repository) tags() ([]tag, error) {
	refs, err := r.git.Tags()
	if err != nil {
		return nil, err
	}
	var tags []tag
	err = refs.ForEach(func(ref *plumbing.Reference) error {
		hash, err := r.git.ResolveRevision(plumbing.Revision(ref.Name()))
		if err != nil {
			return nil // a tag of something else than a commit is no release
		}
		c, err := r.git.CommitObject(*hash)
		if err != nil {
			return nil
		}
		tags = append(tags, tag{ref.Name().Short(), c})
		return nil
	})
	slices.SortStableFunc(tags, func(a, b tag) int {
		return b.commit.Committer.When.Compare(a.commit.Committer.When)
	})
	return tags, err
}

// head returns the commit that is checked out.
func (r *repository) head() (*object.Commit, error) {
	ref, err := r.git.Head()
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return nil, saga.Failf("The repository has no commits yet.")
	}
	if err != nil {
		return nil, err
	}
	return r.git.CommitObject(ref.Hash())
}

// commits returns what is reachable from to and not from from (which may be
// empty), the newest first, and at most limit of it; more tells of the rest.
func (r *repository) commits(ctx context.Context, from, to string, limit int) (list []*object.Commit, more bool, err error) {
	known := map[plumbing.Hash]bool{}
	if from != "" {
		err := r.walk(ctx, from, nil, func(c *object.Commit) error {
			known[c.Hash] = true
			return nil
		})
		if err != nil {
			return nil, false, err
		}
	}
	err = r.walk(ctx, to, known, func(c *object.Commit) error {
		if c.NumParents() > 1 {
			return nil // merges say nothing of their own
		}
		if len(list) == limit {
			more = true
			return storer.ErrStop
		}
		list = append(list, c)
		return nil
	})
	return list, more, err
}

func (r *repository) walk(ctx context.Context, start string, known map[plumbing.Hash]bool, visit func(*object.Commit) error) error {
	c, err := r.git.CommitObject(plumbing.NewHash(start))
	if err != nil {
		return fmt.Errorf("commit %s: %w", start, err)
	}
	it := object.NewCommitIterCTime(c, known, nil)
	defer it.Close()
	for {
		c, err := it.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, plumbing.ErrObjectNotFound): // the latter in a shallow clone
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if err := visit(c); errors.Is(err, storer.ErrStop) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// subject returns the first line of a commit's message, and body the rest.
func subject(c *object.Commit) (subject, body string) {
	subject, body, _ = strings.Cut(strings.TrimSpace(c.Message), "\n")
	return clip(strings.TrimSpace(subject), 200), clip(strings.TrimSpace(body), 400)
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n]) + "…"
}
