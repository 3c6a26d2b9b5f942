package tasks

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
)

// longTurn is how long a turn has run before the record is watched: most are over by then.
const longTurn = 50 * time.Millisecond

// watchAfter is when a turn is to be watched.
func (r *run) watchAfter(t *records.Task) time.Duration {
	over := t.Over()
	if over.IsZero() {
		return longTurn
	}
	return max(0, min(longTurn, over.Sub(r.m.now())))
}

// watch cuts a turn off when its task is cancelled, somebody else's, or over.
func (r *run) watch(ctx context.Context, t *records.Task) {
	if !t.Over().IsZero() {
		go r.cutWhenOver(ctx)
	}
	r.lock()
	e := r.e
	r.unlock()
	for ctx.Err() == nil {
		for found, err := range r.m.book.WatchTask(ctx, e, e.Rev()) {
			if err != nil {
				break
			}
			e = found
			r.lock()
			if r.learn(found); found.Epoch() != r.epoch {
				r.lose()
			}
			r.unlock()
		}
		// The store fails: the lease ends before that matters.
		_ = sleep(ctx, r.m.Lease/10)
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
