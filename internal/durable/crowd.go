package durable

import (
	"context"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Callers who cannot be distinguished share an account, and one of them could fill it with tasks that
// cost nothing, as they sleep or ask. So of those that are begun when it is half full, one that no client
// has looked at for a while gives way to a new one, and one that no client looks at for longer
// ends.

const (
	// crowdPatience is how long such a task lives after a client has looked at it.
	crowdPatience = 10 * time.Minute
	// crowdIdle is after how long at least it gives way to others. A look is noted when the last
	// one was a sixteenth of crowdPatience ago (see [Core.Renew]), which is less.
	crowdIdle = 2 * time.Minute
	// crowdEnds is how long a new task waits for one that gives way to end.
	crowdEnds = 2 * time.Second
)

// crowded reports whether a task was begun when its account was half full, and has not ended. Calls have a
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

// displace ends a task of an account that rests, and that no client has looked at for the longest. It
// reports whether there was one. All tasks of the account are looked through for it, so not more than once a
// second.
func (c *Core) displace(ctx context.Context, of *row) bool {
	if !c.crowd.mayLook(of.Account) {
		return false
	}
	filter := store.Filter{Audience: c.rows.audience, Account: of.Account, Mode: store.ModeTask}
	var last *store.Record
	var wanted time.Time
	for after, n := (store.Cursor{}), operatorsPage; n == operatorsPage; {
		list, err := c.rows.store.List(ctx, filter, after, operatorsPage)
		if err != nil {
			return false
		}
		for _, record := range list {
			after = store.Cursor{Created: record.Created, ID: record.ID}
			var s summary
			if c.rows.open(record.ID, placeSummary, 0, record.Summary, &s) != nil || s.Wanted.IsZero() || record.Until.After(record.Now) {
				continue
			}
			idle := record.Now.Add(crowdPatience).Sub(s.Wanted)
			if idle >= max(crowdIdle, 3*s.Poll) && (last == nil || s.Wanted.Before(wanted)) {
				last, wanted = record, s.Wanted
			}
		}
		n = len(list)
	}
	if last == nil {
		return false
	}
	r, err := c.rows.load(ctx, last.ID)
	if err != nil || r == nil || !crowded(r) || r.Times.Wanted.After(wanted) {
		return false
	}
	next := r.clone()
	next.Times.Wanted = next.now()
	if c.apply(ctx, next, event{kind: kindCancel, body: body{Text: "made way for another"}}, true) != nil {
		return false
	}
	c.crowd.found(of.Account)
	ctx, cancel := context.WithTimeout(ctx, crowdEnds)
	defer cancel()
	for r, err := range c.follow(ctx, nil, func() (*row, error) { return next, nil }) {
		if err != nil || r.Status.Over() {
			break
		}
	}
	return true
}

// crowd knows the accounts that were looked through in vain lately.
type crowd struct {
	mu   sync.Mutex
	vain map[store.ID]time.Time
}

// mayLook reports whether an account is to be looked through, which is taken to be in vain until found.
func (c *crowd) mayLook(account store.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.vain[account]) < time.Second {
		return false
	}
	if c.vain == nil || len(c.vain) > 1000 {
		c.vain = make(map[store.ID]time.Time)
	}
	c.vain[account] = time.Now()
	return true
}

func (c *crowd) found(account store.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.vain, account)
}
