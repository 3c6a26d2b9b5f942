package auth

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/server"
)

// gate bounds how many checks are done at the same time. More wait, but not many and not long: a sender of bad tokens is
// to take neither the processors nor the memory from those who are known already.
type gate struct {
	slots   chan struct{}
	most    time.Duration // that a check waits
	waiting atomic.Int32
}

const (
	maxWaiting = 64
	maxWait    = 250 * time.Millisecond
)

func newGate(slots int, most time.Duration) *gate {
	return &gate{slots: make(chan struct{}, slots), most: most}
}

// try takes a place if there is one.
func (g *gate) try() bool {
	select {
	case g.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// enter waits for a place; then leave must be called. It fails with an error for the client.
func (g *gate) enter(ctx context.Context) error {
	if g.try() {
		return nil
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > maxWaiting {
		return busy()
	}
	timer := time.NewTimer(g.most)
	defer timer.Stop()
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-timer.C:
	case <-ctx.Done(): // it says nothing about the credentials
	}
	return busy()
}

func (g *gate) leave() { <-g.slots }

// pass is one check's place behind a gate, which it can leave while it waits for others.
type pass struct {
	gate   *gate
	inside bool
}

func (p *pass) enter(ctx context.Context) error {
	err := p.gate.enter(ctx)
	p.inside = err == nil
	return err
}

func (p *pass) leave() {
	if p.inside {
		p.gate.leave()
	}
	p.inside = false
}

func busy() error {
	return server.TryAgain("too many credentials are being checked: send the same request again", time.Second)
}

// away is an error for clients while something that is asked about credentials does not answer. Why is for the log.
func away(what string, why error) error {
	return fmt.Errorf("%s: %w (%w)", what, why, server.TryAgain("credentials cannot be checked now: send the same request again", 2*time.Second))
}
