package sqlite

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// listenPoll is how often to look whether other processes have changed something, while anything listens.
const listenPoll = 40 * time.Millisecond

type listener struct{ changed func(store.ID, uint64) }

// Listen implements [store.Store]. What another process changes is not known by its ID.
func (l *ledger) Listen(ctx context.Context, changed func(id store.ID, head uint64)) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	me := &listener{changed}
	l.listening.Lock()
	l.listeners[me] = true
	l.listening.Unlock()
	defer func() {
		l.listening.Lock()
		defer l.listening.Unlock()
		delete(l.listeners, me)
	}()
	changed(store.ID{}, 0) // what was written before may be missed
	poll := time.NewTicker(listenPoll)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
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

// tell calls all that listen.
func (l *ledger) tell(id store.ID, head uint64) {
	l.listening.Lock()
	defer l.listening.Unlock()
	for one := range l.listeners {
		one.changed(id, head)
	}
}
