package durable

import (
	"sync"
	"time"
)

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
