package durable

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// hub tells what waits in this process for a saga that it has changed. It listens to the store as long as
// anything waits.
type hub struct {
	store store.Store
	all   func(id store.ID) // called for every change

	mu      sync.Mutex
	waiting map[store.ID]map[*bell]bool
	users   int
	stop    context.CancelFunc // ends listening
}

// bell is rung when a saga may have changed.
type bell struct{ ring func(head uint64) }

// on has ring be called when a saga may have changed, until stop is called. It must return at once.
// head is the saga's; 0 if it is not known.
func (h *hub) on(id store.ID, ring func(head uint64)) (stop func()) {
	b := &bell{ring}
	leave := h.enter()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = make(map[store.ID]map[*bell]bool)
	}
	if h.waiting[id] == nil {
		h.waiting[id] = make(map[*bell]bool)
	}
	h.waiting[id][b] = true
	return sync.OnceFunc(func() {
		leave()
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.waiting[id], b); len(h.waiting[id]) == 0 {
			delete(h.waiting, id)
		}
	})
}

// wait returns a channel that has one when the saga may have changed.
func (h *hub) wait(id store.ID) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	return c, h.on(id, func(uint64) { signal(c) })
}

// enter has the store be listened to until leave is called.
func (h *hub) enter() (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users++; h.users == 1 {
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		go h.listen(ctx)
	}
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.users--; h.users == 0 {
			h.stop()
		}
	})
}

// listenAgain is how soon the store is listened to again after it has failed.
const listenAgain = 250 * time.Millisecond

func (h *hub) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := h.store.Listen(ctx, h.changed)
		if errors.Is(err, store.ErrClosed) {
			h.changed(store.ID{}, 0) // what waits finds that out
			return
		}
		if sleep(ctx, listenAgain) != nil {
			return
		}
	}
}

// changed is what the store calls.
func (h *hub) changed(id store.ID, head uint64) {
	h.mu.Lock()
	if id == (store.ID{}) { // anything may have changed
		for _, bells := range h.waiting {
			for b := range bells {
				b.ring(0)
			}
		}
	}
	for b := range h.waiting[id] {
		b.ring(head)
	}
	h.mu.Unlock()
	h.all(id)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
