package gitrepo

import (
	"context"
	"time"
)

// Position says how far a tool has come in a history, for another process to go on with: a [Log] that
// begins at Start and skips Visited commits. As a commit names its parents by their contents, it has the
// same commits whatever was committed meanwhile.
type Position struct {
	Start   string `json:"start,omitempty"`
	Visited int    `json:"visited,omitempty"`
}

// Newest returns the commit that is checked out.
func (r *Repository) Newest(ctx context.Context) (*Commit, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	for c, err := range r.Log(ctx, Log{From: head, Limit: 1}) {
		return c, err
	}
	return nil, Gone(head)
}

// reserve is the time that should be left of a turn for what comes after a piece of a history.
const reserve = 15 * time.Second

// Hurry reports whether so little time is left that a tool should stop where it is, and go on in another
// turn. A context without an end is never in a hurry.
func Hurry(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < reserve
}
