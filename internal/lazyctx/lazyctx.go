// Package lazyctx has contexts that cost almost nothing until a goroutine waits for their
// end. Begin one with [Context.Init].
package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Context is a context that can be cancelled and may have a deadline, like one of package
// context. But it sets its timer and registers with its parent only when a goroutine waits
// for its end. Most turns are over before that, and these two are a good part of what a
// short turn costs.
type Context struct {
	context.Context           // the parent
	deadline        time.Time // or zero

	mu    sync.Mutex
	real  context.Context // nil until a goroutine waits
	stop  context.CancelFunc
	ended bool
}

// Init begins a context that ends with its parent, at the deadline unless that is zero,
// and when Cancel is called, which must be done.
func (c *Context) Init(parent context.Context, deadline time.Time) {
	if d, ok := parent.Deadline(); ok && (deadline.IsZero() || d.Before(deadline)) {
		deadline = d
	}
	c.Context, c.deadline = parent, deadline
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

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.start().Done() }

// Err implements context.Context.
func (c *Context) Err() error {
	if real := c.known(); real != nil {
		return real.Err()
	}
	return nil
}

// known returns the real context, nil if there is none. Once c has ended, there is one.
func (c *Context) known() context.Context {
	c.mu.Lock()
	real, ended := c.real, c.ended
	c.mu.Unlock()
	if real == nil && (ended || c.Context.Err() != nil || !c.deadline.IsZero() && !time.Now().Before(c.deadline)) {
		real = c.start()
	}
	return real
}

// Value implements context.Context. Package context looks for its own types here:
// to end children with their parent, and for [context.Cause].
func (c *Context) Value(key any) any {
	if real := c.known(); real != nil {
		return real.Value(key)
	}
	return c.Context.Value(key)
}
