package turns

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// A saga that its client drives looks for the events that it waits for whenever the client comes. Meanwhile it has paused:
// the client brings its token again.

const (
	// comeAgain is when a client is to come again whose saga waits for an event: its request waits by itself.
	comeAgain = time.Second
	// lookAgain is how often such a request looks.
	lookAgain = 500 * time.Millisecond
)

// Mark supplies what a turn of a program that waits for events needs.
func (r *Runner) Mark(ctx context.Context, p *engine.Program, c *engine.Call) (err error) {
	if p.Waits() && r.memory != nil {
		c.Pages = r.Pages
		c.Mark, err = r.memory.Mark(ctx)
	}
	return err
}

// wake is when the client of a saga is to come back that stands there; the zero time if with answers, or at once.
func (c *Config) wake(p *engine.Position) time.Time {
	if p.Wake.IsZero() && p.Awaits() && !p.Asks() {
		return c.Now().Add(comeAgain)
	}
	return p.Wake
}

// isTime waits within the time of a turn, for events or until the saga goes on by itself, and reports whether that is so,
// or the saga has gone on or ended without this request.
func (r *Runner) isTime(ctx context.Context, q *Request, o *Opened, events bool) (bool, error) {
	turn := r.Begin(ctx)
	defer turn.Cancel()
	gone, err := r.hasGoneOn(turn, q, o)
	switch {
	case err != nil, gone:
		return gone, err
	case events:
		return r.delivered(turn, q, o)
	}
	return r.wait(turn, q, o.Position.Wake)
}

// delivered is isTime for events.
func (r *Runner) delivered(ctx context.Context, q *Request, o *Opened) (bool, error) {
	back := func() {} // a request that need not wait keeps its place, and does not queue for it again
	defer func() { back() }()
	for end, waits := r.Now().Add(r.longest()), false; ; waits = true {
		if events, err := r.memory.Register(ctx, q.Principal, o.Program, o.Position); err != nil || len(events) > 0 {
			return true, err
		}
		next := r.Now().Add(lookAgain)
		if r.Sleep != nil || next.After(end) || q.closes() { // a test does not wait
			return false, nil
		}
		if !waits {
			back = q.pause(false)
		}
		if err := r.pause(ctx, q, next); err != nil {
			return false, err
		}
		if gone, err := r.hasGoneOn(ctx, q, o); gone || err != nil {
			return true, err
		}
	}
}
