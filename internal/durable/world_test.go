package durable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// world is servers that come and go, and clients.
type world struct {
	*rig
	rand *rand.Rand
	desk *desk
	seen *witness

	harsh bool // far more goes wrong

	mu       sync.Mutex
	servers  []*server
	revision uint32
	over     bool
	asleep   map[string]time.Time // since when at least a task sleeps
	cancels  map[string]bool      // tasks that somebody wants cancelled
	clients  sync.WaitGroup
	handles  map[string]string // of what tasks wait for
}

// patience is how long the tasks of some clients go on without them.
const patience = 3 * time.Hour

// lease is how long a task is a server's that does not show that it is alive.
const lease = 10 * time.Second

// maxSkew is how wrong the clocks of servers are.
const maxSkew = 5 * time.Second

type server struct {
	m        *durable.Core
	link     *link
	revision uint32
	stop     func()
}

func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

// sleeps and wakes are called by tools around their sleep.
func (w *world) sleeps(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, asleep := w.asleep[id]; !asleep {
		w.asleep[id] = time.Now()
	}
}

func (w *world) wakes(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// A server that could not ask for the time yet goes by its own clock.
	assert.Less(about{w.seen, id}, time.Hour-maxSkew, time.Since(w.asleep[id]), "%s woke too early", id)
}

// cancel has a task cancelled by somebody, soon.
func (w *world) cancel(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels[id] = true
	w.clients.Go(func() {
		time.Sleep(time.Duration(w.intN(20_000)) * time.Millisecond)
		w.tries(id, func(m *durable.Core) error {
			_, err := m.Cancel(context.Background(), "p", id)
			if errors.Is(err, tasks.ErrNotFound) {
				return nil
			}
			return err
		})
	})
}

// arrives delivers what a task waits for, perhaps before it asks, and perhaps twice.
func (w *world) arrives(id, handle string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.handles[id]; known != "" {
		assert.Equal(about{w.seen, id}, known, handle, "%s: the handle is the same in every run", id)
		return
	}
	w.handles[id] = handle
	w.clients.Go(func() {
		time.Sleep(time.Duration(w.intN(3*3600)) * time.Second)
		for range 1 + w.intN(2) {
			w.tries(id, func(m *durable.Core) error {
				err := deliver(m, handle, `{"word":"here"}`)
				w.seen.note(id, "is delivered: %v", err)
				if errors.Is(err, durable.ErrEventGone) {
					return nil
				}
				return err
			})
		}
		w.tries(id, func(m *durable.Core) error {
			err := deliver(m, handle, `{"word":"other"}`)
			if errors.Is(err, durable.ErrEventGone) || errors.Is(err, durable.ErrEventOther) {
				return nil
			}
			assert.Error(about{w.seen, id}, err, "%s: another value was taken", id)
			return err
		})
	})
}

func (w *world) cancelled(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancels[id]
}

// serve begins a server, with a clock of its own.
func (w *world) serve(place int) *server {
	w.mu.Lock()
	skew := time.Duration(w.rand.Int64N(int64(2*maxSkew))) - maxSkew
	calls := -1
	if w.rand.IntN(3) > 0 {
		calls = 1 + w.rand.IntN(400)
	}
	revision := w.revision
	if place > 0 && w.servers[0].revision == revision && w.rand.IntN(3) == 0 {
		revision = 1 // an old one still runs, but not alone: nobody could go on with what is newer
	}
	faults := []float64{0, 0, 0.01, 0.05}
	if w.harsh {
		faults = []float64{0, 0.05, 0.1, 0.2}
	}
	l := newLink(w.store, w.rand, calls, faults[w.rand.IntN(len(faults))])
	w.mu.Unlock()
	l.harsh, l.seen, l.name = w.harsh, w.seen, fmt.Sprintf("%d.%p", place, l)
	s := &server{link: l, revision: revision}
	here := &clerk{w, s}
	c, err := tokens.New(w.keys, tokens.Options{Audience: "test"})
	require.NoError(w.t, err)
	registry, err := engine.NewRegistry(here.machine(revision), here.flow(revision))
	require.NoError(w.t, err)
	runner := turns.New(turns.Config{
		Registry: registry, Codec: c, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(skew) },
	})
	m, err := durable.New(durable.Config{Turns: runner, Store: l, Workers: 8, Attempts: 1000, Lease: lease})
	require.NoError(w.t, err)
	works := make(chan none)
	var stop func()
	s.m, s.stop = m, func() { <-works; stop() } // what works may want it stopped before this goes on
	stop = w.work(m)
	close(works)
	return s
}

// any returns a server that is not dead, as far as clients know.
func (w *world) any() *server {
	for {
		w.mu.Lock()
		s := w.servers[w.rand.IntN(len(w.servers))]
		w.mu.Unlock()
		if !s.link.dead.Load() {
			return s
		}
		time.Sleep(time.Second)
	}
}

// keep has a place be taken by one server after the other.
func (w *world) keep(place int) {
	for {
		w.mu.Lock()
		old, life := w.servers[place], w.rand.IntN(12*60)
		w.mu.Unlock()
		for ; life >= 0 && !old.link.dead.Load() && !old.link.leaves.Load(); life-- {
			time.Sleep(time.Minute)
		}
		w.mu.Lock()
		over := w.over
		w.mu.Unlock()
		if over {
			return
		}
		old.link.leaves.Store(true)
		if w.intN(2) == 0 && !old.link.dead.Load() {
			old.stop() // gracefully
		} else {
			old.link.mu.Lock()
			old.link.left = 0
			old.link.mu.Unlock()
			go old.stop()
			time.Sleep(time.Duration(w.intN(60)) * time.Second)
		}
		next := w.serve(place)
		w.mu.Lock()
		w.servers[place] = next
		w.mu.Unlock()
	}
}

// tries does something on any server until one can.
func (w *world) tries(id string, do func(m *durable.Core) error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := do(w.any().m)
		late := ctx.Err()
		cancel()
		if err == nil || late == nil && !errors.Is(err, durable.ErrUnavailable) && !errors.Is(err, turns.ErrNewer) && !errors.Is(err, durable.ErrEnding) {
			if !assert.NoError(about{w.seen, id}, err, id) {
				runtime.Goexit()
			}
			return
		}
		w.seen.note(id, "a client fails: %v", err)
		time.Sleep(time.Second)
	}
}
