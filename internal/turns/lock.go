package turns

import "sync"

// lock is a mutex that may be held for long, as while the store works. Unlike with a
// [sync.Mutex], whoever waits for it counts as blocked in a bubble of testing/synctest, so that its
// time goes on. The zero value is unlocked.
type lock struct {
	mu   sync.Mutex
	free sync.Cond
	held bool
}

// Lock waits until the lock is free, and takes it.
func (l *lock) Lock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.free.L = &l.mu; l.held; {
		l.free.Wait()
	}
	l.held = true
}

// Unlock frees the lock.
func (l *lock) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	l.free.Signal()
}
