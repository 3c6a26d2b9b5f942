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

// happened supplies the turn after an opened token with the events that have happened.
func (r *Runner) happened(ctx context.Context, q *Request, o *Opened, c *engine.Call) (err error) {
	if o.Position.Awaits() && r.memory != nil {
		c.Events, err = r.memory.Register(ctx, q.Principal, o.Program, o.Position)
	}
	if err == nil {
		err = r.Mark(ctx, o.Program, c)
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

// ready is awake, and waits for an event as well, if the saga waits for nothing else. If none happens in good time it is
// where it was, and so is its token.
func (r *Runner) ready(ctx context.Context, q *Request, o *Opened) (End, error) {
	if o.Gone != nil || !o.Position.Awaits() || o.Position.Asks() || r.memory == nil {
		return r.awake(ctx, q, o)
	}
	turn := r.Begin(ctx)
	defer turn.Cancel()
	end := r.Now().Add(r.longest())
	for {
		events, err := r.memory.Register(turn, q.Principal, o.Program, o.Position)
		if err != nil {
			return End{}, r.failed(o.Identity, err)
		}
		over := len(events) > 0
		if !over {
			if over, err = r.hasEnded(turn, q, o); err != nil {
				return End{}, r.failed(o.Identity, err)
			}
		}
		if over {
			return r.take(turn, q, o)
		}
		next := r.Now().Add(lookAgain)
		if r.Sleep != nil || next.After(end) || q.closes() { // a test does not wait
			return End{Token: q.Token, Policy: q.Policy, Wake: r.wake(o.Position), Outcome: engine.Outcome{Position: o.Position}}, nil
		}
		if err := r.pause(turn, q, next); err != nil {
			return End{}, r.failed(o.Identity, err)
		}
	}
}
