package store

import "sync"

// Listeners are those that listen to a [Store]. The zero value is for use.
type Listeners struct {
	mu  sync.Mutex
	all map[*func(ID, uint64)]bool
}

// Add has changed be called until leave is.
func (l *Listeners) Add(changed func(id ID, head uint64)) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[*func(ID, uint64)]bool)
	}
	l.all[&changed] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, &changed)
	}
}

// Tell calls all.
func (l *Listeners) Tell(id ID, head uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for changed := range l.all {
		(*changed)(id, head)
	}
}
