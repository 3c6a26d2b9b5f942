package gitrepo

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Commit is what tools need of a commit. Its texts are valid UTF-8, whatever the commit
// was encoded in, and as long as their author made them: a tool that keeps many clips them.
type Commit struct {
	Hash    plumbing.Hash
	Parents []plumbing.Hash
	// Tree is the root directory.
	Tree plumbing.Hash
	// When is the committer's time, by which histories are ordered.
	When time.Time
	// Author is a name, and Email an address, as the author gave them.
	Author, Email string
	// Subject is the message's first line, Body the rest.
	Subject, Body string
}

// The sizes in bytes of the largest objects that are read. Directories are larger than
// commits, and do not compress well.
const (
	maxObject = maxObjectFile // of a commit or a tag
	maxTree   = 2 * maxObjectFile
)

// Head returns the commit that is checked out.
func (r *Repository) Head(ctx context.Context) (plumbing.Hash, error) {
	ref, err := r.git.Head()
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return plumbing.ZeroHash, saga.Failf("The repository has no commits yet.")
	}
	if err != nil {
		return plumbing.ZeroHash, Unreadable(ctx, "The repository's HEAD", err)
	}
	return ref.Hash(), nil
}

// Commit reads a commit. One that is missing is plumbing.ErrObjectNotFound; what else is
// wrong with it, the caller may read. It must not be changed.
func (r *Repository) Commit(ctx context.Context, hash plumbing.Hash) (*Commit, error) {
	if c := r.recent[hash]; c != nil {
		return c, nil
	}
	o, err := r.object(hash, maxObject)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, err
	}
	var c *Commit
	if err == nil {
		c, err = decode(o)
	}
	if err != nil {
		return nil, Unreadable(ctx, "The commit "+hash.String(), err)
	}
	if o.Size() <= maxRecentSize {
		if len(r.recent) == maxRecent {
			clear(r.recent)
		}
		r.recent[hash] = c
	}
	return c, nil
}

// A commit is asked for several times in a row: for its time when it is found, when its turn
// has come, and to compare with. So the latest are kept, unless they are large.
const (
	maxRecent     = 500
	maxRecentSize = 8 << 10 // bytes
)

// object reads an object that is no larger than limit. What it says of its size is looked
// at before it is decompressed.
func (r *Repository) object(hash plumbing.Hash, limit int64) (plumbing.EncodedObject, error) {
	if pack, offset, err := r.packs.find(hash); err != nil {
		return nil, err
	} else if pack != nil {
		return r.packs.read(pack, hash, offset, limit)
	}
	r.files.object = maxObjectFile
	size, err := r.git.Storer.EncodedObjectSize(hash)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, errTooLarge
	}
	r.files.object = maxObjectFile
	return r.git.Storer.EncodedObject(plumbing.AnyObject, hash)
}

func decode(o plumbing.EncodedObject) (*Commit, error) {
	full := &object.Commit{}
	if err := full.Decode(o); err != nil {
		return nil, err
	}
	text := textIn(string(full.Encoding))
	subject, body, _ := strings.Cut(strings.TrimSpace(text(full.Message)), "\n")
	return &Commit{
		Hash: o.Hash(), Parents: full.ParentHashes, Tree: full.TreeHash, When: full.Committer.When,
		Author: text(full.Author.Name), Email: text(full.Author.Email), Subject: strings.TrimSpace(subject), Body: body,
	}, nil
}

// textIn returns what makes UTF-8 of a commit's texts. An encoding that nobody knows is
// taken for UTF-8, and what is not that is shown as missing.
func textIn(encoding string) func(string) string {
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	if encoding == "" || strings.EqualFold(encoding, "UTF-8") {
		return valid
	}
	known, err := htmlindex.Get(encoding)
	if err != nil {
		return valid
	}
	return func(s string) string {
		if decoded, err := known.NewDecoder().String(s); err == nil {
			s = decoded
		}
		return valid(s)
	}
}

// Entry is a name in a directory.
type Entry struct {
	Name string
	Hash plumbing.Hash
	// Dir: it is a directory, whose entries [Repository.Tree] reads.
	Dir bool
	// Module: it is another repository (a submodule), of which only Hash is known.
	Module bool
}

// Tree reads a directory. It fails with an error that the caller may read if the directory
// is missing, as in a partial clone, or is larger than tools read.
func (r *Repository) Tree(ctx context.Context, hash plumbing.Hash) ([]Entry, error) {
	o, err := r.object(hash, maxTree)
	if err != nil {
		return nil, Unreadable(ctx, "The directory "+hash.String(), err)
	}
	tree := &object.Tree{}
	if err := tree.Decode(o); err != nil {
		return nil, Unreadable(ctx, "The directory "+hash.String(), err)
	}
	entries := make([]Entry, len(tree.Entries))
	for i, e := range tree.Entries {
		entries[i] = Entry{Name: e.Name, Hash: e.Hash, Dir: e.Mode == filemode.Dir, Module: e.Mode == filemode.Submodule}
	}
	return entries, nil
}
