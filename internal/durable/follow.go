package durable

import (
	"context"
	"encoding/base64"
	"errors"
	"iter"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

var encoding = base64.RawURLEncoding

func microTime(us int64) time.Time { return time.UnixMicro(us).UTC() }

// follow yields the row of a saga whenever it may have changed, beginning with the present one. It ends with an
// error, or when ctx ends. It is the only way in which anything waits for a saga.
func (c *Core) follow(ctx context.Context, find func() (*row, error)) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		r, err := find()
		if err != nil {
			yield(nil, err)
			return
		}
		changed, stop := c.hub.wait(r.ID)
		defer stop()
		id, saga := r.ID, r.Saga
		for {
			// What has changed before it was listened for is not told.
			if r, err = c.rows.load(ctx, id); err == nil && (r == nil || r.Saga != saga) {
				err = tasks.ErrNotFound // it was forgotten
			}
			if errors.Is(err, ErrUnreadable) {
				err = c.forgets(ctx, id, err)
			}
			if !yield(r, err) || err != nil {
				return
			}
			timer := time.NewTimer(c.Poll)
			select {
			case <-changed:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			if ctx.Err() != nil {
				yield(nil, &turns.Error{Err: ctx.Err()}) // who has seen enough is no news
				return
			}
		}
	}
}

// Watch implements [tasks.Viewer].
func (c *Core) Watch(ctx context.Context, principal, id string, after uint64) iter.Seq2[*tasks.Task, error] {
	return func(yield func(*tasks.Task, error) bool) {
		looking, stop := context.WithCancel(ctx) // as who watches a task does all the time
		defer stop()
		looks, shown := false, false
		var seen uint64
		var last tasks.Status
		for r, err := range c.follow(ctx, func() (*row, error) { return c.find(ctx, principal, id) }) {
			if err != nil {
				yield(nil, c.report(ctx, "task", err))
				return
			}
			if !looks && crowded(r) {
				looks = true
				c.looked(ctx, r)
				go c.keepLooking(looking, r.ID)
			}
			status := statusOf(r)
			if r.Head <= after || shown && r.Shown.Changes == seen && status == last {
				if status.Ended() {
					return
				}
				continue
			}
			shown, seen, last, after = true, r.Shown.Changes, status, r.Head
			t, err := c.view(r)
			if !yield(t, err) || err != nil || status.Ended() {
				return
			}
		}
	}
}

// Notify implements [tasks.Viewer].
func (c *Core) Notify(ctx context.Context, principal, id string, changed func()) (stop func(), err error) {
	r, err := c.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	return c.hub.on(r.ID, func(uint64) { changed() }), nil
}

// Events implements [tasks.Viewer].
func (c *Core) Events(ctx context.Context, principal, id string, after uint64, limit int) ([]tasks.Event, error) {
	r, err := c.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	var list []tasks.Event
	for limit > 0 && after < r.Head {
		events, log, err := c.rows.log(ctx, r.ID, after, limit)
		if err != nil {
			return nil, c.report(ctx, "task", err)
		}
		for i := range events {
			after = events[i].n
			t, ok, err := events[i].told()
			if err != nil {
				return nil, damaged(err)
			}
			if ok && !(r.Mode == store.ModeCall && t.Kind == tasks.EventQuestion) { // who waits for a call has its questions
				list = append(list, t)
				limit--
			}
		}
		if len(events) == 0 || after >= log.Head {
			break
		}
	}
	return list, nil
}
