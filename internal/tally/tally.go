// Package tally counts what is under way, and waits until nothing is: see [Tally].
package tally

import (
	"context"
	"sync"
)

// Tally counts what is under way. Its zero value counts nothing yet. Unlike a
// [sync.WaitGroup] it counts more while a goroutine waits, and a waiter may give up.
type Tally struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed while nothing is under way; nil if nothing ever was
}

// Begin counts one more, until end is called.
func (t *Tally) Begin() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n++; t.n == 1 {
		t.idle = make(chan struct{})
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.n--; t.n == 0 {
			close(t.idle)
		}
	}
}

// Wait waits until nothing is under way, or until ctx ends, whose error it then returns.
func (t *Tally) Wait(ctx context.Context) error {
	t.mu.Lock()
	idle := t.idle
	t.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	default:
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
