package durable

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Callers who cannot be told apart share an account, and one of them could fill it with tasks that
// cost nothing, as they sleep or ask. So of those that are begun when it is half full, one that no client
// has looked at for a while gives way to a new one, and one that no client looks at for longer
// ends.

const (
	// crowdPatience is how long such a task goes on after a client has looked at it.
	crowdPatience = 10 * time.Minute
	// crowdIdle is after how long at least it gives way to others. A look is noted when the last
	// one was a sixteenth of crowdPatience ago (see [Core.Renew]), which is less.
	crowdIdle = 2 * time.Minute
	// crowdSample is how many tasks are looked through for one that gives way.
	crowdSample = 64
)

// crowded reports whether a task was begun when its account was half full, and goes on. Calls have a
// patience of their own.
func crowded(r *row) bool {
	return r.Mode == store.ModeTask && !r.Times.Wanted.IsZero() && !r.Status.Over() && !r.Cancelled && r.Undoing == nil
}

// looked notes that a client has looked at a task.
func (c *Core) looked(ctx context.Context, r *row) {
	if crowded(r) && r.Times.Wanted.Sub(r.now()) < crowdPatience-crowdPatience/16 {
		_, _ = c.renew(ctx, r.ID, crowdPatience, nil) // or the next look does
	}
}

// keepLooking looks at a task until ctx ends.
func (c *Core) keepLooking(ctx context.Context, id store.ID) {
	for sleep(ctx, crowdIdle/2) == nil {
		if r, err := c.rows.load(ctx, id); err == nil && r != nil {
			c.looked(ctx, r)
		}
	}
}

// displace ends a task of an account that rests, and that no client has looked at for the longest of
// some. It reports whether there is one.
func (c *Core) displace(ctx context.Context, of *row) bool {
	list, err := c.rows.store.List(ctx, store.Filter{Audience: c.rows.audience, Account: of.Account, Mode: store.ModeTask}, store.Cursor{}, crowdSample)
	if err != nil {
		return false
	}
	var last *row
	for _, record := range list {
		r, err := c.rows.load(ctx, record.ID)
		if err != nil || r == nil || !crowded(r) || r.Until.After(r.now()) || isOver(r, r.now()) {
			continue
		}
		idle := r.now().Add(crowdPatience).Sub(r.Times.Wanted)
		if idle >= max(crowdIdle, 3*r.Times.Poll) && (last == nil || r.Times.Wanted.Before(last.Times.Wanted)) {
			last = r
		}
	}
	if last == nil {
		return false
	}
	next := last.clone()
	next.Times.Wanted = next.now()
	return c.apply(ctx, next, event{kind: kindCancel, body: body{Text: "made way for another"}}, true) == nil
}
