package dialect

import "sync"

// Tally counts what is under way.
type Tally struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when nothing is left; nil if nobody waits
}

// Begin counts one more.
func (t *Tally) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

// End counts one less.
func (t *Tally) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// Idle returns a channel that is closed when nothing is under way.
func (t *Tally) Idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := t.idle
	if idle == nil {
		idle = make(chan struct{})
		if t.n == 0 {
			close(idle)
		} else {
			t.idle = idle
		}
	}
	return idle
}
