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

// follow yields the row of a saga whenever it may have changed, beginning with the present one, and nil
// whenever the time is there that wake says, if that is not nil. It ends with an error, or when ctx ends. It
// is the only way in which anything waits for a saga.
func (c *Core) follow(ctx context.Context, wake func() time.Time, find func() (*row, error)) iter.Seq2[*row, error] {
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
			poll := time.Now().Add(c.Poll)
			for until(ctx, changed, poll, wake) {
				if !yield(nil, nil) {
					return
				}
			}
			if ctx.Err() != nil {
				yield(nil, &turns.Error{Err: ctx.Err()}) // who has seen enough is no news
				return
			}
		}
	}
}

// until waits for a change, but not beyond poll. It reports true if it was woken before.
func until(ctx context.Context, changed <-chan struct{}, poll time.Time, wake func() time.Time) (woken bool) {
	end := poll
	if wake != nil {
		if at := wake(); at.Before(poll) {
			end, woken = at, true
		}
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-timer.C:
		return woken
	case <-changed:
	case <-ctx.Done():
	}
	return false
}

// Follow implements [tasks.Viewer].
func (c *Core) Follow(ctx context.Context, principal, id string, after uint64, wake func() time.Time) iter.Seq2[tasks.News, error] {
	return func(yield func(tasks.News, error) bool) {
		looking, stop := context.WithCancel(ctx) // as who follows a task does all the time
		defer stop()
		looks, shown := false, false
		var seen, told uint64
		var last tasks.Status
		for r, err := range c.follow(ctx, wake, func() (*row, error) { return c.find(ctx, principal, id) }) {
			if err == nil && r == nil {
				if !yield(tasks.News{}, nil) {
					return
				}
				continue
			}
			if err != nil {
				yield(tasks.News{}, c.report(ctx, "task", err))
				return
			}
			if !looks && crowded(r) {
				looks = true
				c.looked(ctx, r)
				go c.keepLooking(looking, r.ID)
			}
			status := statusOf(r)
			if shown && r.Shown.Changes == seen && status == last {
				continue
			}
			for r.Shown.Told != told && r.Shown.Newest > after {
				events, err := c.events(ctx, r, after, eventsAtOnce)
				if err != nil {
					yield(tasks.News{}, err)
					return
				}
				for i := range events {
					after = events[i].N
					if events[i].Progress == nil && events[i].Log == nil {
						continue
					}
					if !yield(tasks.News{Event: &events[i]}, nil) {
						return
					}
				}
				if len(events) < eventsAtOnce {
					break
				}
			}
			shown, seen, told, last, after = true, r.Shown.Changes, r.Shown.Told, status, max(after, r.Shown.Newest)
			t, err := c.view(r)
			if !yield(tasks.News{Task: t}, err) || err != nil || status.Ended() {
				return
			}
		}
	}
}

// eventsAtOnce is how many events are read at once.
const eventsAtOnce = 100

// Events implements [tasks.Viewer].
func (c *Core) Events(ctx context.Context, principal, id string, after uint64, limit int) ([]tasks.Event, error) {
	r, err := c.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	return c.events(ctx, r, after, limit)
}

func (c *Core) events(ctx context.Context, r *row, after uint64, limit int) ([]tasks.Event, error) {
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
