package sagatest

import (
	"context"
	"sync"
	"time"
)

// clock is that of one turn. What still runs of a turn that was cut off has its own.
type clock struct {
	began time.Time
	mu    sync.Mutex
	at    time.Time
}

// now returns the time.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// sleep lets the time pass at once.
func (c *clock) sleep(ctx context.Context, until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.Before(until) {
		c.at = until
	}
	return ctx.Err()
}
