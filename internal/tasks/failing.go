package tasks

import (
	"context"
	"sync"
	"time"
)

// A server that can take tasks and cannot write what it has done would lose each, take it again and
// lose it again, until it counts as one that breaks servers. So as long as its writes fail it takes
// none: others, whose writes may not fail, are to have the first chance.

// mostPause is for how long a server takes no tasks at most, after a write has failed.
const mostPause = 5 * time.Minute

// writing is how what a server writes of the tasks that it runs goes.
type writing struct {
	mu    sync.Mutex
	pause time.Duration // for how long it takes nothing after a failure; 0: it writes
	until time.Time     // when it tries again
	tried bool          // it has, since the last failure
	works chan struct{} // closed when it writes again
	stop  func()        // ends what waits for tasks; may be nil
	slow  time.Duration // how long the store takes for a write, for all that is known
}

// lease is for how long a task is taken. A store that is slow takes its time to write that it is taken
// for longer: without more room for that, servers would take each other's tasks until each counts as
// one that breaks them.
func (m *Manager) lease() time.Duration {
	w := &m.writing
	w.mu.Lock()
	defer w.mu.Unlock()
	return m.Lease + min(4*w.slow, 6*m.Lease)
}

// took notes how long the store has taken for something, whether or not that succeeded. That it was
// slow is forgotten over the next few times, not at once.
func (w *writing) took(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = max(d, w.slow-w.slow/8)
}

// failed notes that a write fails again and again. A server keeps what it has for a lease at
// most, so first is longer than that.
func (w *writing) failed(first time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.pause == 0:
		w.pause, w.works = first, make(chan struct{})
	case w.tried:
		w.pause = min(2*w.pause, mostPause)
	}
	w.tried, w.until = false, time.Now().Add(w.pause)
	if w.stop != nil {
		w.stop()
	}
}

// worked notes that something was written.
func (w *writing) worked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pause > 0 {
		w.pause, w.tried = 0, false
		close(w.works)
	}
}

// await waits until tasks can be taken. What waits for them then is ended by stop if writes begin to
// fail.
func (w *writing) await(ctx context.Context, stop func()) {
	for ctx.Err() == nil {
		w.mu.Lock()
		left, works := time.Until(w.until), w.works
		if w.pause == 0 || left <= 0 {
			w.tried, w.stop = w.pause > 0, stop
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		select {
		case <-works:
		case <-time.After(left):
		case <-ctx.Done():
		}
	}
}
