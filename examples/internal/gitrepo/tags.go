package gitrepo

import (
	"context"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Tag is a release: a tag that leads to a commit.
type Tag struct {
	// Name is the tag's, without refs/tags/.
	Name string
	// Hash is the commit, When its time.
	Hash plumbing.Hash
	When time.Time
}

const maxTagName = 200

// Tags returns the repository's tags, the newest commit first. Those that lead to no commit
// that can be read, and those with very long names, are left out.
func (r *Repository) Tags(ctx context.Context) ([]Tag, error) {
	refs, err := r.git.Tags()
	if err != nil {
		return nil, Unreadable(ctx, "The list of the repository's tags", err)
	}
	var tags []Tag
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
		tags = append(tags, Tag{strings.ToValidUTF8(ref.Name().Short(), "\uFFFD"), c.Hash, c.When})
		return nil
	})
	if err == nil {
		budget := maxTied
		err = r.sortTags(ctx, tags, &budget)
	}
	return tags, err
}

// tagged returns the commit that a tag leads to, by a few tags of tags at most.
func (r *Repository) tagged(hash plumbing.Hash) (*Commit, error) {
	for range 5 {
		o, err := r.object(hash, maxObject)
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
