package records

import (
	"context"
	"sync"
	"time"
)

// Clocks of replicas differ, and leases are shorter than what they may differ by. So leases go by
// the store's clock, which all replicas have in common. How far one's own is from it is measured
// now and then, not for each lease.
type clock struct {
	mu       sync.Mutex
	ahead    time.Duration // the store's
	measured time.Time
}

const (
	// measureEvery is for how long a measurement is believed.
	measureEvery = time.Minute
	// measureWithin is how long one may take at most, which is twice as much as it may be wrong.
	measureWithin = time.Second
)

// Now returns the time by the store's clock, own being the caller's. If the store cannot be
// asked, its clock is where it was, or the same as the caller's.
func (b *Book) Now(ctx context.Context, own func() time.Time) time.Time {
	c := &b.clock
	c.mu.Lock()
	ahead, fresh := c.ahead, !c.measured.IsZero() && time.Since(c.measured) < measureEvery
	c.mu.Unlock()
	if fresh {
		return own().Add(ahead)
	}
	before := own()
	store, err := b.store.Now(ctx)
	now := own()
	if took := now.Sub(before); err == nil && took >= 0 && took <= measureWithin {
		ahead = store.Sub(before.Add(took / 2))
		c.mu.Lock()
		c.ahead, c.measured = ahead, time.Now()
		c.mu.Unlock()
	}
	return now.Add(ahead)
}
