// Package lazyctx is for contexts that cost next to nothing until somebody waits for their
// end. Make one with [New].
package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Context is a context that can be cancelled and may have a deadline, like one
// of package context. But its timer and its place in the parent's list come into
// being only when somebody waits for its end. Most turns are over before anybody
// does, and these two are a good part of what a short turn costs.
type Context struct {
	context.Context           // the parent
	deadline        time.Time // or zero

	mu    sync.Mutex
	real  context.Context // nil until somebody waits
	stop  context.CancelFunc
	ended bool
}

// New returns a context that ends with its parent, at the deadline
// unless that is zero, and when Cancel is called, which must be done.
func New(parent context.Context, deadline time.Time) *Context {
	if d, ok := parent.Deadline(); ok && (deadline.IsZero() || d.Before(deadline)) {
		deadline = d
	}
	return &Context{Context: parent, deadline: deadline}
}

// Cancel ends the context.
func (c *Context) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.stop != nil {
		c.stop()
	}
}

// start returns the real context.
func (c *Context) start() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		if c.deadline.IsZero() {
			c.real, c.stop = context.WithCancel(c.Context)
		} else {
			c.real, c.stop = context.WithDeadline(c.Context, c.deadline)
		}
		if c.ended {
			c.stop()
		}
	}
	return c.real
}

// settled returns the real context if there is one, or if this one has ended.
func (c *Context) settled() context.Context {
	c.mu.Lock()
	started, ended := c.real, c.ended
	c.mu.Unlock()
	switch {
	case started != nil:
		return started
	case ended || c.Context.Err() != nil || !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return c.start()
	}
	return nil
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.start().Done() }

// Err implements context.Context.
func (c *Context) Err() error {
	if real := c.settled(); real != nil {
		return real.Err()
	}
	return nil
}

// Value implements context.Context. Package context looks for its own types here:
// to end children with their parent, and for [context.Cause].
func (c *Context) Value(key any) any {
	if real := c.settled(); real != nil {
		return real.Value(key)
	}
	return c.Context.Value(key)
}
