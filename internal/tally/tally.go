// Package tally counts what is under way, for those who wait until nothing is: see [Tally].
package tally

import "sync"

// Tally counts what is under way. Its zero value counts nothing yet. Unlike a
// [sync.WaitGroup] it takes more while somebody waits, who may give up.
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

// Idle returns a channel that is closed when nothing is under way.
func (t *Tally) Idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = make(chan struct{})
		close(t.idle)
	}
	return t.idle
}
