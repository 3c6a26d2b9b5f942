package gitrepo

import (
	"bytes"
	"container/heap"
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Walk visits a commit and all that it descends from, each once, the newest first. Of the
// commits that wait it keeps no more than hash and time, as one commit may name thousands of
// parents; of those that were visited, the hash.
type Walk struct {
	repo    *Repository
	start   plumbing.Hash
	waiting waiting
	seen    map[plumbing.Hash]bool
	// visited is how many commits Next returned, in this walk and in those before it that
	// it continues; oldest is the least of their times; missing is how many parents the
	// repository does not have.
	visited, missing int
	oldest           int64
	// resumed is where this walk began, until it knows what was visited before. While it
	// does not, a parent as young as something that was visited may be one of those.
	resumed *Position
}

// Position says how far a [Walk] has come, for another process to go on with. Its size is
// bounded. The same position in the same history leads to the same commits, whatever was
// committed meanwhile.
type Position struct {
	// Start is the commit where the walk began.
	Start string `json:"start,omitempty"`
	// Visited is how many commits were visited, Missing how many parents are not in the
	// repository because it is shallow, and Oldest the least time of a commit visited, in
	// seconds.
	Visited int   `json:"visited,omitempty"`
	Missing int   `json:"missing,omitempty"`
	Oldest  int64 `json:"oldest,omitempty"`
	// Next are the commits that come next. If there are too many of them it is empty, and
	// the commits visited are visited again to find them.
	Next []string `json:"next,omitempty"`
}

// maxNext is how many commits a position holds. A history has as many that wait as
// branches were open at one time.
const maxNext = 256

// Walk begins a walk at a commit. What is in seen is left out, with all that only it leads
// to, and what is visited is added; nil leaves nothing out.
func (r *Repository) Walk(ctx context.Context, start plumbing.Hash, seen map[plumbing.Hash]bool) (*Walk, error) {
	if seen == nil {
		seen = map[plumbing.Hash]bool{}
	}
	w := &Walk{repo: r, start: start, seen: seen, oldest: math.MaxInt64}
	if seen[start] {
		return w, nil
	}
	c, err := r.Commit(ctx, start)
	if err != nil {
		return nil, err
	}
	w.add(c)
	return w, nil
}

// FromHead begins a walk at the commit that is checked out, and returns that commit as well.
func (r *Repository) FromHead(ctx context.Context) (*Walk, *Commit, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, err := r.Commit(ctx, head)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, nil, Unreadable(ctx, "The commit that is checked out", err)
	}
	if err != nil {
		return nil, nil, err
	}
	w, err := r.Walk(ctx, head, nil)
	return w, c, err
}

// Commits are the commits of a [Repository.Walk]. An error is the last of them.
func (r *Repository) Commits(ctx context.Context, start plumbing.Hash, seen map[plumbing.Hash]bool) iter.Seq2[*Commit, error] {
	return func(yield func(*Commit, error) bool) {
		w, err := r.Walk(ctx, start, seen)
		for err == nil {
			var c *Commit
			if c, err = w.Next(ctx); err == nil && !yield(c, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}

// Resume goes on where a walk was that left nothing out. It fails with an error for the
// caller if the commits are gone.
func (r *Repository) Resume(ctx context.Context, p Position) (*Walk, error) {
	w := &Walk{
		repo: r, start: plumbing.NewHash(p.Start), seen: map[plumbing.Hash]bool{},
		visited: p.Visited, missing: p.Missing, oldest: p.Oldest, resumed: &p,
	}
	if p.Visited == 0 {
		w.oldest = math.MaxInt64
	}
	if len(p.Next) == 0 {
		return w, w.recall(ctx)
	}
	for _, next := range p.Next {
		c, err := r.Commit(ctx, plumbing.NewHash(next))
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, goneError(next)
		}
		if err != nil {
			return nil, err
		}
		w.add(c)
	}
	return w, nil
}

func goneError(hash string) error {
	return saga.Failf("The commit %.12s, where this was to go on, is no longer in the repository: its history was rewritten meanwhile. Begin again.", hash)
}

// Next returns the next commit, or io.EOF when there is none.
func (w *Walk) Next(ctx context.Context) (*Commit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(w.waiting) == 0 {
		return nil, io.EOF
	}
	c, err := w.repo.Commit(ctx, w.waiting[0].hash)
	if err != nil {
		return nil, err
	}
	heap.Pop(&w.waiting)
	for _, parent := range c.Parents {
		if err := w.parent(ctx, parent); err != nil {
			return nil, err
		}
	}
	w.visited++
	w.oldest = min(w.oldest, c.When.Unix())
	return c, nil
}

// parent has a parent wait, unless it was seen.
func (w *Walk) parent(ctx context.Context, hash plumbing.Hash) error {
	if w.seen[hash] {
		return nil
	}
	c, err := w.repo.Commit(ctx, hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		w.seen[hash] = true // the clone is shallow
		w.missing++
		return nil
	}
	if err != nil {
		return err
	}
	// Where clocks were right, a parent is older than what was visited before its child.
	if w.resumed != nil && c.When.Unix() >= w.resumed.Oldest {
		if err := w.recall(ctx); err != nil || w.seen[hash] {
			return err
		}
	}
	w.add(c)
	return nil
}

func (w *Walk) add(c *Commit) {
	if !w.seen[c.Hash] {
		w.seen[c.Hash] = true
		heap.Push(&w.waiting, pending{c.Hash, c.When})
	}
}

// recall finds out what was visited before the position where this walk began, by walking
// there once more.
func (w *Walk) recall(ctx context.Context) error {
	p := w.resumed
	before, err := w.repo.Walk(ctx, w.start, nil)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return goneError(p.Start)
	}
	if err != nil {
		return err
	}
	for before.visited < p.Visited {
		if _, err := before.Next(ctx); errors.Is(err, io.EOF) {
			return goneError(p.Start)
		} else if err != nil {
			return err
		}
	}
	if len(p.Next) == 0 {
		w.waiting = before.waiting
	}
	for hash := range before.seen {
		w.seen[hash] = true
	}
	w.resumed = nil
	return nil
}

// Done reports whether there is no next commit.
func (w *Walk) Done() bool { return len(w.waiting) == 0 }

// reserve is the time that should be left of a turn for what comes after a walk.
const reserve = 15 * time.Second

// Hurry reports whether so little time is left that a walk should stop where it is, and go
// on in another turn. A context without an end is never in a hurry.
func Hurry(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < reserve
}

// Position returns where the walk is: behind the commit that Next returned last.
func (w *Walk) Position() Position {
	p := Position{Start: w.start.String(), Visited: w.visited, Missing: w.missing}
	if w.visited > 0 {
		p.Oldest = w.oldest
	}
	if len(w.waiting) <= maxNext {
		for _, next := range w.waiting {
			p.Next = append(p.Next, next.hash.String())
		}
	}
	return p
}

// pending is a commit that a walk has yet to visit.
type pending struct {
	hash plumbing.Hash
	when time.Time
}

// waiting is a heap, the newest on top. Commits of one second come in the order of their
// hashes: a walk that goes on elsewhere has to find the same order.
type waiting []pending

func (w waiting) Len() int      { return len(w) }
func (w waiting) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *waiting) Push(p any)   { *w = append(*w, p.(pending)) }

func (w waiting) Less(i, j int) bool {
	if order := w[i].when.Compare(w[j].when); order != 0 {
		return order > 0
	}
	return bytes.Compare(w[i].hash[:], w[j].hash[:]) < 0
}

func (w *waiting) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}
