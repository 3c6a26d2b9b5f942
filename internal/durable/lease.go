package durable

import (
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// term is for how long a lease is asked for, from when on. It counts from before the store is asked.
type term struct {
	began time.Time // by the clock that only goes forward
	wall  time.Time // by the one that runs while a machine is suspended
	takes time.Duration
}

// term returns a term that begins now.
func (c *Core) term() term {
	return term{time.Now(), c.Turns.Now(), c.rows.pace.lease(c.Lease)}
}

// lease is what a process knows of its lease. It has a lock of its own, as the row is locked for as long
// as a write takes.
type lease struct {
	mu   sync.Mutex
	of   store.Held
	term term
}

func (l *lease) acquire(r *row, t term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of, l.term = store.Held{ID: r.ID, Fence: r.Fence}, t
}

func (l *lease) renewed(t term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.began.After(l.term.began) {
		l.term = t
	}
}

func (l *lease) held() store.Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of
}

// expired reports whether the lease may be over, by either clock.
func (l *lease) expired(now term) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.term
	return now.began.Sub(t.began) >= t.takes || now.wall.Round(0).Sub(t.wall.Round(0)) >= t.takes
}

// pace is how long the store takes for a write, for all that is known. A store that is slow takes its
// time to renew a lease as well: without more room for that, processes would take each other's sagas
// until each counts as one that breaks servers.
type pace struct {
	mu   sync.Mutex
	slow time.Duration
}

// took notes how long the store has taken, whether or not it succeeded. That it was slow is forgotten
// over the next few times, not at once.
func (p *pace) took(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = max(d, p.slow-p.slow/8)
}

// lease is for how long a saga is acquired, where it would be for so long in a store that is fast.
func (p *pace) lease(least time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return least + min(4*p.slow, 6*least)
}
