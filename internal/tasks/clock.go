package tasks

import (
	"context"
	"sync"
	"time"
)

// clock tells the store's time, by which all replicas go: their own clocks may differ. Between two
// looks at the store's clock this process's own goes on, which may be set by hours at any moment, and
// stands still with the process: its monotonic part tells that something is wrong, not what.
type clock struct {
	mu     sync.Mutex
	offset time.Duration // of the store's clock to this process's
	asked  time.Time     // when somebody asked last, by the monotonic clock
	// own is what this process's clock showed when it was found to be right, and since when that was
	// by the monotonic clock.
	own, since time.Time
}

const (
	// syncTime is how often the store is asked for its time.
	syncTime = time.Minute
	// notable is a difference of clocks that counts.
	notable = 20 * time.Millisecond
	// doubtful is how far the two parts of a clock are apart if one of them is wrong.
	doubtful = time.Second
)

// sync finds out how late it is, unless that is known. If the store does not say, the last
// that is known holds.
func (m *Manager) sync(ctx context.Context) {
	_, sure := m.time()
	c := &m.clock
	c.mu.Lock()
	known := sure && !c.asked.IsZero() && time.Since(c.asked) < syncTime
	if !known {
		c.asked = time.Now() // one asks
	}
	c.mu.Unlock()
	if known {
		return
	}
	before, began := m.own(), time.Now()
	at, err := m.book.Store().Now(ctx)
	m.writing.took(time.Since(began)) // what is slow in this is no faster in writing
	if err != nil {
		c.mu.Lock()
		c.asked = time.Time{}
		c.mu.Unlock()
		return
	}
	// The store has looked at its clock somewhere in between: what is known holds unless it
	// cannot be true.
	half := time.Since(began) / 2
	after := m.own()
	if (after.Sub(before) - 2*half).Abs() > doubtful { // it was set just now
		before = after.Add(-2 * half)
	}
	offset := at.Sub(before.Add(half))
	c.mu.Lock()
	if (offset - c.offset).Abs() >= half+notable {
		c.offset = offset
	}
	c.own, c.since = after, time.Now()
	c.mu.Unlock()
}

// own is what this process's clock shows.
func (m *Manager) own() time.Time { return m.Turns.Now().Round(0) }

// time is the store's time, for all that is known. It is not sure after this process's clock was
// set, or has stood still, until the store was asked: then it is too early at most.
func (m *Manager) time() (now time.Time, sure bool) {
	c := &m.clock
	own := m.own()
	c.mu.Lock()
	defer c.mu.Unlock()
	sure = true
	if !c.since.IsZero() {
		if by := c.own.Add(time.Since(c.since)); own.Sub(by).Abs() > doubtful {
			own, sure = by, false
		}
	}
	return own.Add(c.offset).UTC().Truncate(time.Microsecond), sure
}

// now is the store's time.
func (m *Manager) now() time.Time {
	now, _ := m.time()
	return now
}

// passed reports whether a lease until then may be over.
func (m *Manager) passed(until time.Time) bool {
	now, sure := m.time()
	return !sure || now.After(until)
}
