package turns

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// A sleep is waited for within the request if it ends in good time before the turn does:
// what comes after it needs time as well.
const (
	// spare is which part of a turn's Timeout is not slept through: a quarter.
	spare = 4
	// longestSleep is how long is waited where nothing bounds a turn.
	longestSleep = time.Minute
)

// longest is how long a turn may sleep that has just begun.
func (c *Config) longest() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout - c.Timeout/spare
	}
	return longestSleep
}

// fits reports whether there is time in the turn of ctx to wait until wake and go on.
func (c *Config) fits(ctx context.Context, wake time.Time) bool {
	most := c.longest()
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)-c.Timeout/spare)
	}
	return wake.Sub(c.Now()) <= most
}

// wait waits until wake if that fits into the turn of ctx, and reports whether it is time. It
// fails if ctx ends before.
func (c *Config) wait(ctx context.Context, q *Request, wake time.Time) (bool, error) {
	if wake.After(c.Now()) && c.fits(ctx, wake) && !q.closes() { // else it does not wait, and would queue for its place
		defer q.pause(false)()
	}
	return c.waitIf(ctx, q, wake, func(time.Duration) bool { return c.fits(ctx, wake) })
}

// waitIf waits until wake as long as that fits and anything is waited for, and reports whether it is time.
func (c *Config) waitIf(ctx context.Context, q *Request, wake time.Time, fits func(time.Duration) bool) (bool, error) {
	for {
		d := wake.Sub(c.Now())
		switch {
		case d <= 0:
			return true, nil
		case !fits(d), q.closes(): // also where the clock went back meanwhile
			return false, nil
		}
		if err := c.pause(ctx, q, wake); err != nil {
			return false, err
		}
		if wake.Sub(c.Now()) == d && !q.closes() {
			return true, nil // a clock that stands still does not get there
		}
	}
}

// pause waits until wake, or until nothing is waited for any more.
func (c *Config) pause(ctx context.Context, q *Request, wake time.Time) error {
	if c.Sleep != nil {
		return c.Sleep(ctx, wake)
	}
	timer := time.NewTimer(wake.Sub(c.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-cmp.Or(q.Closing, context.Background()).Done():
	case <-timer.C:
	}
	return nil
}

// hold waits in the request of a client that cannot be asked to come back. That is no longer
// than it is waited for an answer of such a client.
func (c *Config) hold(ctx context.Context, q *Request, wake time.Time) error {
	defer q.pause(true)()
	ttl := c.Codec.Options().TTL
	fits, err := c.waitIf(ctx, q, wake, func(d time.Duration) bool { return d <= ttl-ttl/10 })
	if err == nil && !fits && q.closes() {
		err = context.Cause(q.Closing)
	} else if err == nil && !fits {
		err = fmt.Errorf("the tool sleeps until %s, which is longer than a request can wait: set Tasks.Mode in its Info to TasksRequired, and give the server a ledger", wake.Format(time.RFC3339))
	}
	return err
}

// hasGoneOn reports whether there is nothing more to wait for where the token says, and nothing to ask: the saga has ended,
// or has gone on from there.
func (r *Runner) hasGoneOn(ctx context.Context, q *Request, o *Opened) (bool, error) {
	if !r.remembers(o.Program) {
		return false, nil
	}
	return r.memory.HasGoneOn(ctx, q.Principal, o.Saga, o.Position.Turn)
}

// carry keeps what was yielded and could not be passed on with the outcome of the next turn, until
// that is a result.
func carry(out *engine.Outcome, from *engine.Position) {
	switch {
	case out == nil:
	case out.Position != nil:
		out.Position.Parts = from.Parts
	case out.Result != nil:
		result := *out.Result
		result.Content = slices.Concat(from.Parts, result.Content)
		out.Result = &result
	}
}

// carryEnd is carry for a saga that was cancelled, if that was too late: the end of its turn has
// all that it yielded.
func carryEnd(out *engine.Outcome, from *engine.Position) {
	if out != nil && len(from.Parts) > 0 && UndoReport(out.Result) == nil {
		carry(out, from)
	}
}

// goesOn reports whether a saga continues without its client although it has asked nothing:
// because it slept and has waited here, or has yielded what comes with the result.
func (r *Runner) goesOn(ctx context.Context, q *Request, out *engine.Outcome) (bool, error) {
	pos := out.Position
	if out.Yielded != nil && !q.Parts {
		pos.Parts = slices.Concat(pos.Parts, out.Yielded)
		out.Yielded = nil
		// Where there is no time left, it is as if the tool had paused.
		return r.fits(ctx, r.Now()), ctx.Err()
	}
	return r.wait(ctx, q, pos.Wake)
}

// expires is until when the client of a saga that sleeps has to come back: its time begins when
// the saga can go on.
func (c *Config) expires(p *engine.Position) time.Time {
	expires := later(p.Rests(), c.Now()).Add(c.Codec.Options().TTL)
	if !p.Deadline.IsZero() && p.Deadline.Before(expires) {
		return p.Deadline
	}
	return expires
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
