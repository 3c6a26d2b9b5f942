package durable

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// follow yields the row of a saga whenever it may have changed, beginning with the present one, and nil whenever the time is
// there that wake says, if that is not nil. It ends with an error, or when ctx ends. id is the row's, unless find finds it by
// another name. Its changes are listened for before it is read.
func (c *Core) follow(ctx context.Context, id store.ID, wake func() time.Time, find func() (*row, error)) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		changed, stop := c.hub.wait(id)
		defer func() { stop() }()
		r, err := find()
		if err == nil && r != nil && r.ID != id {
			stop()
			changed, stop = c.hub.wait(r.ID)
			r, err = find()
		}
		if err == nil && r == nil {
			err = tasks.ErrNotFound
		}
		for yield(r, err) && err == nil {
			for end, over := time.Now().Add(c.Poll), false; !over; { // until something was heard, or nothing for long
				next := end
				if wake != nil {
					next = slices.MinFunc([]time.Time{wake(), end}, time.Time.Compare)
				}
				over = !awaits(ctx, changed, time.Until(next)) || next.Equal(end) || ctx.Err() != nil
				if !over && !yield(nil, nil) {
					return
				}
			}
			r, err = c.loadAgain(ctx, r)
		}
	}
}

// loadAgain returns what has become of a row. It fails with [tasks.ErrNotFound] if the saga was forgotten.
func (c *Core) loadAgain(ctx context.Context, was *row) (r *row, err error) {
	if ctx.Err() == nil {
		r, err = c.rows.load(ctx, was.ID)
	}
	switch {
	case ctx.Err() != nil: // also while it was loaded: who has seen enough is no news
		return nil, &turns.Error{Err: ctx.Err()}
	case errors.Is(err, ErrUnreadable):
		return nil, c.forgets(ctx, was.ID, err)
	case err == nil && (r == nil || r.Saga != was.Saga):
		return nil, tasks.ErrNotFound
	}
	return r, err
}

func (c *Core) loading(ctx context.Context, id store.ID) func() (*row, error) {
	return func() (*row, error) { return c.rows.load(ctx, id) }
}

// Follow implements [tasks.Viewer]. It does not ask Permit, which was asked when the task was begun or found: a client
// that is refused here would call again, while its task is under way.
func (c *Core) Follow(ctx context.Context, principal, id string, after uint64, wake func() time.Time) iter.Seq2[tasks.News, error] {
	find := func() (*row, error) { return c.owned(ctx, principal, id) }
	return func(yield func(tasks.News, error) bool) {
		var last *row // what was shown last
		var told uint64
		for r, err := range c.follow(ctx, c.rows.taskID(principal, id), wake, find) {
			switch {
			case err != nil:
				yield(tasks.News{}, c.report(ctx, "task", err))
				return
			case r == nil:
				if !yield(tasks.News{}, nil) {
					return
				}
				continue
			}
			c.looked(ctx, r)
			// A client sees no difference, nor does a reader that stops when its task rests.
			if last != nil && r.Shown.Changes == last.Shown.Changes && statusOf(r) == statusOf(last) && r.rests() == last.rests() {
				continue
			}
			if r.Shown.Told != told && r.Shown.Newest > after { // a newest event that was not told is a question, a part or the end
				for e, err := range c.rows.events(ctx, r.ID, after) {
					switch {
					case err != nil:
						yield(tasks.News{}, c.report(ctx, "task", err))
						return
					case e.Progress == nil && e.Log == nil:
						continue
					case !yield(tasks.News{Event: e.shown()}, nil):
						return
					}
					after = e.n
				}
			}
			last, told, after = r, r.Shown.Told, max(after, r.Shown.Newest)
			t, err := c.view(r)
			if !yield(tasks.News{Task: t}, err) || err != nil || statusOf(r).Ended() {
				return
			}
		}
	}
}

// Parts implements [tasks.Viewer].
func (c *Core) Parts(ctx context.Context, principal, id string) (parts content.Blocks, err error) {
	r, err := c.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	for e, err := range c.rows.events(ctx, r.ID, 0) {
		if err != nil {
			return nil, c.report(ctx, "task", err)
		}
		if e.kind != kindPartial {
			continue
		}
		var part content.Blocks
		if err := part.UnmarshalJSON(e.Partial); err != nil {
			return nil, damaged(err)
		}
		parts = append(parts, part...)
	}
	return parts, nil
}

// hub has what waits in this process for a saga hear that it has changed. It listens to the store as long as
// anything waits.
type hub struct {
	store store.Store
	all   func(id store.ID) // called for every change

	mu      sync.Mutex
	waiting map[store.ID]map[chan struct{}]bool // each has one when the saga may have changed
	due     []chan struct{}                     // what is still to hear that anything may have changed
	pauses  bool                                // until the next of that do
	again   bool                                // anything may have changed since
	users   int
	stop    context.CancelFunc // ends listening
}

// wait has changes of a saga heard until stop is called.
func (h *hub) wait(id store.ID) (changed chan struct{}, stop func()) {
	changed = make(chan struct{}, 1)
	leave := h.enter()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting[id] == nil {
		h.waiting[id] = make(map[chan struct{}]bool)
	}
	h.waiting[id][changed] = true
	return changed, sync.OnceFunc(func() {
		leave()
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.waiting[id], changed); len(h.waiting[id]) == 0 {
			delete(h.waiting, id)
		}
	})
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

func (h *hub) changed(id store.ID, _ uint64) {
	h.mu.Lock()
	for c := range h.waiting[id] {
		signal(c)
	}
	if id == (store.ID{}) {
		h.anything()
	}
	h.mu.Unlock()
	h.all(id)
}

// Each that hears that anything may have changed reads its row again. Of a crowd, so many do at once, and the next after a
// while: otherwise all of them would have the store do little else where other processes write to it all the time.
const (
	crowd      = 100
	crowdPause = 100 * time.Millisecond
)

// anything has all that waits hear that anything may have changed.
func (h *hub) anything() {
	if h.again = h.pauses; h.pauses {
		return
	}
	for _, those := range h.waiting {
		h.due = slices.AppendSeq(h.due, maps.Keys(those))
	}
	h.next()
}

// next has the next of them hear.
func (h *hub) next() {
	n := min(crowd, len(h.due))
	for _, c := range h.due[:n] {
		signal(c)
	}
	h.due = slices.Delete(h.due, 0, n)
	if h.pauses = n == crowd; h.pauses {
		time.AfterFunc(crowdPause, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.pauses = false
			h.next()
		})
	} else if h.again {
		h.anything()
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
