package releasenotes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/mcpsaga/mcpsaga/saga"
)

// commit is what this tool needs of a commit, and little enough to keep many.
type commit struct {
	hash          plumbing.Hash
	when          time.Time
	parents       []plumbing.Hash
	subject, body string
}

// tag is a release: a tag that leads to a commit.
type tag struct {
	name string
	hash plumbing.Hash
	when time.Time
}

const maxTagName = 200

// tags returns the repository's tags, the newest commit first.
func (r *repository) tags(ctx context.Context) ([]tag, error) {
	refs, err := r.git.Tags()
	if err != nil {
		return nil, unreadable(ctx, "The list of the repository's tags", err)
	}
	var tags []tag
	err = refs.ForEach(func(ref *plumbing.Reference) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c, err := r.tagged(ref.Hash())
		if err != nil {
			return nil // a tag of something else than a commit is no release
		}
		if len(ref.Name()) > maxTagName {
			return nil // nobody could choose it
		}
		tags = append(tags, tag{strings.ToValidUTF8(ref.Name().Short(), "\uFFFD"), c.hash, c.when})
		return nil
	})
	if err == nil {
		err = r.sortTags(ctx, tags)
	}
	return tags, err
}

// tagged returns the commit that a tag leads to, by a few tags of tags at most.
func (r *repository) tagged(hash plumbing.Hash) (*commit, error) {
	for range 5 {
		o, err := r.object(hash)
		if err != nil {
			return nil, err
		}
		if o.Type() != plumbing.TagObject {
			return decode(o)
		}
		t := &object.Tag{}
		if err := t.Decode(o); err != nil {
			return nil, err
		}
		hash = t.Target
	}
	return nil, plumbing.ErrObjectNotFound
}

// head returns the commit that is checked out.
func (r *repository) head(ctx context.Context) (plumbing.Hash, error) {
	ref, err := r.git.Head()
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return plumbing.ZeroHash, saga.Failf("The repository has no commits yet.")
	}
	if err != nil {
		return plumbing.ZeroHash, unreadable(ctx, "The repository's HEAD", err)
	}
	return ref.Hash(), nil
}

func (r *repository) commit(ctx context.Context, hash plumbing.Hash) (*commit, error) {
	o, err := r.object(hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, err
	}
	var c *commit
	if err == nil {
		c, err = decode(o)
	}
	if err != nil {
		return nil, unreadable(ctx, "The commit "+hash.String(), err)
	}
	return c, nil
}

// object reads an object that is no larger than a commit or a tag should be. What it
// says of its size is looked at before it is decompressed.
func (r *repository) object(hash plumbing.Hash) (plumbing.EncodedObject, error) {
	r.files.object = maxObjectFile
	size, err := r.git.Storer.EncodedObjectSize(hash)
	if err != nil {
		return nil, err
	}
	if size > maxObjectFile {
		return nil, errTooLarge
	}
	r.files.object = maxObjectFile
	return r.git.Storer.EncodedObject(plumbing.AnyObject, hash)
}

func decode(o plumbing.EncodedObject) (*commit, error) {
	full := &object.Commit{}
	if err := full.Decode(o); err != nil {
		return nil, err
	}
	subject, body, _ := strings.Cut(strings.TrimSpace(full.Message), "\n")
	return &commit{
		hash: o.Hash(), when: full.Committer.When, parents: full.ParentHashes,
		subject: clip(subject, 200), body: clip(body, 400),
	}, nil
}

// commits returns what is reachable from to and not from from (which may be
// empty), the newest first, and at most limit of it; more tells of the rest.
func (r *repository) commits(ctx context.Context, from, to string, limit int) (list []*commit, more bool, err error) {
	known := map[plumbing.Hash]bool{}
	if from != "" {
		if err := r.walk(ctx, plumbing.NewHash(from), known, func(*commit) error { return nil }); err != nil {
			return nil, false, err
		}
	}
	err = r.walk(ctx, plumbing.NewHash(to), known, func(c *commit) error {
		if len(c.parents) > 1 {
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

// walk visits a commit and what it descends from, the newest first, but for what is in
// seen, to which it adds what it visits. Of the commits that wait it keeps no more than
// hash and time: one commit may name thousands of parents.
func (r *repository) walk(ctx context.Context, start plumbing.Hash, seen map[plumbing.Hash]bool, visit func(*commit) error) error {
	var waiting []pending // the newest last
	add := func(hash plumbing.Hash) error {
		if seen[hash] {
			return nil
		}
		c, err := r.commit(ctx, hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) && hash != start {
			return nil // the clone is shallow
		}
		if err != nil {
			return err
		}
		seen[hash] = true
		at, _ := slices.BinarySearchFunc(waiting, c.when, func(p pending, when time.Time) int { return p.when.Compare(when) })
		waiting = slices.Insert(waiting, at, pending{hash, c.when})
		return nil
	}
	if err := add(start); err != nil {
		return err
	}
	for len(waiting) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		newest := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		c, err := r.commit(ctx, newest.hash)
		if err != nil {
			return err
		}
		if err := visit(c); errors.Is(err, storer.ErrStop) {
			return nil
		} else if err != nil {
			return err
		}
		for _, parent := range c.parents {
			if err := add(parent); err != nil {
				return err
			}
		}
	}
	return nil
}

// pending is a commit that walk has yet to visit.
type pending struct {
	hash plumbing.Hash
	when time.Time
}

// clip returns the text's first n characters, in memory of its own.
func clip(s string, n int) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return strings.Clone(s)
}
