// Package bounds says which requests a server takes up: how often a caller may come, and how many requests are worked
// on at once. It decides before anything is done for a request. buckets.go keeps the rates of callers, and gate.go has the
// places of requests that are worked on.
package bounds

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Config configures a [Gate].
type Config struct {
	// Caller is how often a caller may come, and Tools how often one may call a tool, by the tool's name.
	Caller Rate
	Tools  map[string]Rate
	// Places is how many requests are worked on at once.
	Places int
	// Now is the clock.
	Now func() time.Time
}

// Patience is how long a request waits for a place before it is refused.
const Patience = time.Second

// freely is which part of the places anyone may take, however many others have: a half. Of the rest, a caller gets an
// eighth of all at most. So no caller has all.
const (
	freely    = 2
	ofOneMost = 8
)

// The bounds that a request may have met which is refused: the rate of a caller, that of one for a tool, and the places.
const (
	CallerRate = "rate"
	ToolRate   = "tool_rate"
	Busy       = "busy"
)

// Gate admits requests. It is safe for concurrent use.
type Gate struct {
	config  Config
	buckets buckets
	// Log is how often it is logged that something was refused: a caller that may not come must not fill the log.
	Log rate.Sometimes

	mu      sync.Mutex
	taken   int
	shares  map[string]int // of places beyond those that are free to all
	waiting []*waiter      // in the order in which they came
}

// waiter is a request that waits for a place.
type waiter struct {
	place *Place
	free  chan struct{} // closed when it has its place
}

// New returns a gate.
func New(c Config) *Gate {
	return &Gate{config: c, shares: make(map[string]int), Log: rate.Sometimes{Interval: time.Second}}
}

// Place is the place of a request. The zero Place is none.
type Place struct {
	// Weight is how many places it takes, if that is more than one; at most those that one caller gets of the rest.
	Weight int

	gate *Gate
	of   string // whose it is
	// The gate guards what follows. counted: it is part of the caller's share.
	held, counted, over bool
	resting             int32 // how much of the request waits for others than this server
}

// Admit gives a request of a caller's a place, which may take as long as [Patience]. tool is the tool that it calls, or empty, and
// callers of whom nothing is known are one. If it is refused, met says why, and wait, when it may come again.
func (g *Gate) Admit(ctx context.Context, p *Place, caller, tool string) (met string, wait time.Duration) {
	if met, wait = g.allow(caller, tool); met != "" {
		return met, wait
	}
	g.mu.Lock()
	p.gate, p.of, p.Weight = g, caller, max(1, min(p.Weight, g.share()))
	if g.grant(p) {
		g.mu.Unlock()
	} else if !g.wait(ctx, p) {
		return Busy, Patience
	}
	return "", 0
}

// share is how many places a caller gets beyond those that are free to all.
func (g *Gate) share() int { return max(1, g.config.Places/ofOneMost) }

// grant gives a request a place if there is one for its caller. The gate is locked.
func (g *Gate) grant(p *Place) bool {
	switch {
	case g.taken < g.config.Places/freely:
	case g.taken+p.Weight <= g.config.Places && g.shares[p.of]+p.Weight <= g.share():
		g.shares[p.of] += p.Weight
		p.counted = true
	default:
		return false
	}
	g.taken += p.Weight
	p.held = true
	return true
}

// wait waits for a place. The gate is locked, and is not when it returns.
func (g *Gate) wait(ctx context.Context, p *Place) bool {
	mine := 0
	for _, w := range g.waiting {
		if w.place.of == p.of {
			mine++
		}
	}
	if len(g.waiting) >= g.config.Places || mine >= g.share() { // who waits takes memory, too
		g.mu.Unlock()
		return false
	}
	w := &waiter{p, make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-w.free:
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, w); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return p.held
}

// release takes a place back, and gives it to the first that wait and may have it. The gate is locked.
func (g *Gate) release(p *Place) {
	if !p.held {
		return
	}
	g.taken -= p.Weight
	if p.counted {
		if g.shares[p.of] -= p.Weight; g.shares[p.of] == 0 {
			delete(g.shares, p.of)
		}
	}
	p.held, p.counted = false, false
	g.waiting = slices.DeleteFunc(g.waiting, func(w *waiter) bool {
		granted := !w.place.held && g.grant(w.place)
		if granted {
			close(w.free)
		}
		return granted
	})
}

// Leave gives up the place for good. No place can be left.
func (p *Place) Leave() {
	if p == nil || p.gate == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.over = true
	p.gate.release(p)
}

// Rest gives up the place while the request waits for its client; back takes one again. As the client has answered, the
// request is not refused: where there is no place it waits for [Patience] at most, and then does without, so that one
// caller's answers that come all at once leave others theirs.
func (p *Place) Rest() (back func()) {
	g := p.gate
	if g == nil {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p.resting++
	g.release(p)
	return func() {
		g.mu.Lock()
		if p.resting--; p.resting == 0 && !p.over && !p.held && !g.grant(p) {
			g.wait(context.Background(), p)
			g.mu.Lock()
		}
		defer g.mu.Unlock()
		if p.resting > 0 || p.over {
			g.release(p)
		}
	}
}
