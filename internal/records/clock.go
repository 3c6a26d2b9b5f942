package records

import (
	"context"
	"sync"
	"time"
)

// Clocks of replicas differ, and leases are shorter than what they may differ by. So leases go by
// the store's clock, which all replicas have in common. How far one's own is from it is measured
// now and then, not for each lease, and again when one's own has been set or stood still: its
// monotonic part tells that.
type clock struct {
	mu       sync.Mutex
	ahead    time.Duration // the store's
	own      time.Time     // what the caller's clock showed when that was measured
	measured time.Time
}

const (
	// measureEvery is for how long a measurement is believed.
	measureEvery = time.Minute
	// measureWithin is how long one may take at most, which is twice as much as it may be wrong.
	measureWithin = time.Second
	// doubtful is how far the two parts of a clock are apart if one of them is wrong. That is much less
	// than the shortest lease, which is a second.
	doubtful = 200 * time.Millisecond
)

// Now returns the time by the store's clock, own being the caller's. If the store cannot be
// asked, its clock is where it was, or the same as the caller's.
func (b *Book) Now(ctx context.Context, own func() time.Time) time.Time {
	c := &b.clock
	before := own().Round(0)
	c.mu.Lock()
	ahead, at, fresh := c.ahead, before, false
	if !c.measured.IsZero() {
		passed := time.Since(c.measured)
		by := c.own.Add(passed)
		fresh = passed < measureEvery && before.Sub(by).Abs() <= doubtful
		if by.After(at) { // leases are over rather than believed in
			at = by
		}
	}
	c.mu.Unlock()
	if fresh {
		return before.Add(ahead)
	}
	began := time.Now()
	store, err := b.store.Now(ctx)
	took, now := time.Since(began), own().Round(0)
	if err != nil || took > measureWithin || (now.Sub(before)-took).Abs() > measureWithin {
		return at.Add(took).Add(ahead)
	}
	ahead = store.Sub(now.Add(-took / 2))
	c.mu.Lock()
	c.ahead, c.own, c.measured = ahead, now, time.Now()
	c.mu.Unlock()
	return now.Add(ahead)
}
