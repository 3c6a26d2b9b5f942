package reporeport

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
)

// rootFiles stands for the files that are in no directory.
const rootFiles = "."

// maxInside is how many directories of a commit are looked into; more are only counted
// themselves.
const maxInside = 100

// changes finds the directories that commits change.
type changes struct {
	repo *gitrepo.Repository
	// trees are directories read lately: what a commit has is what the next one compares
	// with. entries is how many names they have.
	trees   map[plumbing.Hash][]gitrepo.Entry
	entries int
}

func newChanges(r *gitrepo.Repository) *changes {
	return &changes{repo: r, trees: map[plumbing.Hash][]gitrepo.Entry{}}
}

// of returns the directories that a commit changes against its parent: those at the root
// and those in them. A merge changes nothing of its own, and of what a shallow clone begins
// with nobody knows.
func (c *changes) of(ctx context.Context, commit *gitrepo.Commit) ([]string, error) {
	var before plumbing.Hash
	switch len(commit.Parents) {
	case 0:
	case 1:
		parent, err := c.repo.Commit(ctx, commit.Parents[0])
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		before = parent.Tree
	default:
		return nil, nil
	}
	found := map[string]bool{}
	inside := 0
	err := c.compare(ctx, before, commit.Tree, func(old, new gitrepo.Entry) error {
		if !isDir(old) && !isDir(new) {
			found[rootFiles] = true
			return nil
		}
		name := cmp.Or(new.Name, old.Name)
		found[gitrepo.Line(name, maxDirName)] = true
		if inside++; inside > maxInside {
			return nil
		}
		return c.compare(ctx, treeOf(old), treeOf(new), func(old, new gitrepo.Entry) error {
			if isDir(old) || isDir(new) {
				found[gitrepo.Line(name+"/"+cmp.Or(new.Name, old.Name), maxDirName)] = true
			}
			return nil
		})
	})
	return slices.Sorted(maps.Keys(found)), err
}

// isDir: the files of a submodule are in another repository, and it looks like a directory.
func isDir(e gitrepo.Entry) bool { return e.Dir || e.Module }

// treeOf returns the directory that can be looked into, if the entry is one.
func treeOf(e gitrepo.Entry) plumbing.Hash {
	if e.Dir {
		return e.Hash
	}
	return plumbing.ZeroHash
}

// compare visits what differs between two directories, of which either may be none (the
// zero hash). Git keeps names in order.
func (c *changes) compare(ctx context.Context, old, new plumbing.Hash, visit func(old, new gitrepo.Entry) error) error {
	if old == new {
		return nil
	}
	a, err := c.tree(ctx, old)
	if err != nil {
		return err
	}
	b, err := c.tree(ctx, new)
	if err != nil {
		return err
	}
	for len(a) > 0 || len(b) > 0 {
		var x, y gitrepo.Entry
		switch order := inOrder(a, b); {
		case order < 0:
			x, a = a[0], a[1:]
		case order > 0:
			y, b = b[0], b[1:]
		default:
			x, y, a, b = a[0], b[0], a[1:], b[1:]
		}
		if x == y {
			continue
		}
		if err := visit(x, y); err != nil {
			return err
		}
	}
	return nil
}

// inOrder says which of two lists has the next name.
func inOrder(a, b []gitrepo.Entry) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return cmp.Compare(sortName(a[0]), sortName(b[0]))
}

// sortName is a name as git sorts it: directories as if they ended in a slash.
func sortName(e gitrepo.Entry) string {
	if e.Dir {
		return e.Name + "/"
	}
	return e.Name
}

const maxCached = 50_000 // names

func (c *changes) tree(ctx context.Context, hash plumbing.Hash) ([]gitrepo.Entry, error) {
	if hash == plumbing.ZeroHash {
		return nil, nil
	}
	if entries, ok := c.trees[hash]; ok {
		return entries, nil
	}
	entries, err := c.repo.Tree(ctx, hash)
	if err != nil {
		return nil, err
	}
	if c.entries += len(entries) + 1; c.entries > maxCached {
		clear(c.trees)
		c.entries = len(entries) + 1
	}
	c.trees[hash] = entries
	return entries, nil
}
