package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// listenPoll is how often to look whether other processes have changed something, while anything listens.
const listenPoll = 40 * time.Millisecond

// listeners are the functions to call when something has changed.
type listeners struct {
	mu  sync.Mutex
	all map[*listener]struct{}
}

type listener struct{ changed func(store.ID, uint64) }

// Listen implements [store.Store]. What another process changes is not known by its ID.
func (l *ledger) Listen(ctx context.Context, changed func(id store.ID, head uint64)) error {
	if l.isClosed() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	defer l.listeners.add(&listener{changed})()
	changed(store.ID{}, 0) // what was written before is not told
	ticker := time.NewTicker(listenPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			select {
			case l.writer.poll <- struct{}{}:
			default: // another has asked
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-l.closing:
			return store.ErrClosed
		}
	}
}

// add adds a listener, until remove is called.
func (l *listeners) add(one *listener) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[*listener]struct{})
	}
	l.all[one] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, one)
	}
}

// tell calls all that listen.
func (l *listeners) tell(id store.ID, head uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		one.changed(id, head)
	}
}

// tellOf calls all that listen for what operations have changed.
func (l *listeners) tellOf(ops []*op) {
	for _, o := range ops {
		if o.err == nil && o.id != (store.ID{}) {
			l.tell(o.id, o.head)
		}
	}
}
