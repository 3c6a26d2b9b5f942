package durable_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// takings are when records were taken.
type takings struct {
	storetest.Intercept
	mu   sync.Mutex
	when []time.Time
}

func noteTakings(of store.Store) *takings {
	s := &takings{Intercept: storetest.Intercept{Store: of}}
	s.Around = func(_ context.Context, c storetest.Call, next func() error) error {
		err := next()
		if c.Taken != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			for range *c.Taken {
				s.when = append(s.when, time.Now())
			}
		}
		return err
	}
	return s
}

func (s *takings) all() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.when)
}

// A server that can take tasks but not write of them leaves what it has lost to others, and takes it
// again after long pauses only; when it can write again, it goes on with all.
func TestAServerThatCannotWriteTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		seen := noteTakings(r.store)
		var cut *narrow
		var calm atomic.Bool
		tool := step(func(*turn) error {
			time.Sleep(10 * time.Millisecond) // by then it has a record
			cut.noWrite.Store(!calm.Load())
			return nil
		})
		cut = newNarrow(seen)
		many := func(c *durable.Config) { c.Attempts = 100 } // to look on for longer
		a := r.manager(func(c *durable.Config) { many(c); c.Store = cut }, tool)
		r.work(a)

		task := r.start(a, call(a, "steps", ""))
		time.Sleep(4 * time.Minute)
		assert.Empty(t, seen.all(), "it could write the one that it has lost")
		cut.noWrite.Store(false)
		began := time.Now()
		r.until(a, task.ID, tasks.Completed)
		assert.LessOrEqual(t, time.Since(began), 5*time.Second)

		// Nobody else is there, and it gives the next one up after five minutes. It does not take it again before it can write.
		task = r.start(a, call(a, "steps", ""))
		time.Sleep(time.Hour)
		require.Empty(t, seen.all())
		tool = step(func(*turn) error { return nil })
		b := r.manager(many, tool)
		queued := r.start(b, call(b, "steps", ""))
		cut.noWrite.Store(false)
		calm.Store(true)
		began = time.Now()
		r.start(a, call(a, "steps", ""))
		r.until(b, queued.ID, tasks.Completed)
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
		// And whoever can write takes what it has lost.
		r.work(b)
		r.until(b, task.ID, tasks.Completed)
		assert.LessOrEqual(t, time.Since(began), 11*time.Second)
	})
}

// tardy is a store that takes its time.
type tardy struct {
	storetest.Intercept
	takes  atomic.Int64 // nanoseconds
	writes bool         // but only for what it writes
}

func newTardy(of store.Store, writes bool) *tardy {
	s := &tardy{Intercept: storetest.Intercept{Store: of}, writes: writes}
	s.Around = func(ctx context.Context, c storetest.Call, next func() error) error {
		if c.Writes() || c.Method == "Renew" || !s.writes && (c.Method == "Load" || c.Method == "Find" || c.Method == "Log") {
			if err := s.wait(ctx); err != nil {
				return err
			}
		}
		return next()
	}
	return s
}

func (s *tardy) wait(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(s.takes.Load())):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A store that is slow makes tasks slow. It does not have servers take each other's tasks until they
// are given up.
func TestASlowStore(t *testing.T) {
	for takes, later := range map[time.Duration]bool{3 * time.Second: false, 5 * time.Second: true} {
		for _, waits := range []bool{false, true} {
			inBubble(t, func(t *testing.T, r *rig) {
				slow := newTardy(r.store, later)
				r.store = slow
				if !later {
					slow.takes.Store(int64(takes))
				}
				var runs, calls atomic.Int32
				effect := &saga.Effect[string, string]{
					Name: "act", Tries: 1,
					Do:   func(context.Context, saga.Key, string) (string, error) { calls.Add(1); return "", nil },
					Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
				}
				act := func(t *turn) error {
					runs.Add(1)
					time.Sleep(time.Second)
					slow.takes.Store(int64(takes))
					time.Sleep(90 * time.Second)
					_, err := saga.Do(t, effect, "x")
					return err
				}
				tool := saga.Machine[none, none]{
					Info: saga.Info{Name: "slow", Tasks: optional, Asks: []steps.Question{nameForm}, Effects: []saga.Declared{effect}},
					Start: func(t *turn) (saga.Next, error) {
						if err := act(t); err != nil {
							return nil, err
						}
						return t.Ask("end", nameForm)
					},
					Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) {
						if err := act(t); err != nil {
							return nil, err
						}
						return t.Textf("done")
					}},
				}
				quick := single("quick", nothing)
				a, b := r.manager(nil, tool, quick), r.manager(nil, tool, quick)
				r.work(a)
				r.work(b)
				for _, m := range []*durable.Core{a, b} { // so they know how fast the store is
					r.until(m, r.start(m, call(m, "quick", "")).ID, tasks.Completed)
				}
				idle := r.manager(nil, tool)
				s, at := call(idle, "slow", ""), idle // whoever has room takes it
				if waits {
					s, at = waited(a, "slow"), a
				}
				task, err := at.Start(t.Context(), s)
				require.NoError(t, err)
				task = r.until(b, task.ID, tasks.InputRequired)
				_, err = a.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
				require.NoError(t, err)
				r.until(b, task.ID, tasks.Completed)
				assert.EqualValues(t, 2, calls.Load(), "effects with writes of %v", takes)
				if later { // each server finds out by losing what it had
					assert.LessOrEqual(t, runs.Load(), int32(4))
				} else {
					assert.EqualValues(t, 2, runs.Load(), "steps with writes of %v", takes)
				}
			})
		}
	}
}

// A server that has lost a task for a moment, and whose tool is still at it and does not listen, does
// not count as one that goes down with it again and again.
func TestATaskThatItsServerHasStill(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var runs atomic.Int32
		a, way := r.narrowed(single("deaf", func(t *turn) (saga.Next, error) {
			if runs.Add(1) == 1 {
				time.Sleep(5 * time.Minute)
			}
			return t.Textf("done")
		}))
		r.work(a)
		task := r.start(a, call(a, "deaf", ""))
		time.Sleep(time.Second)
		way.noRenew.Store(true)
		time.Sleep(20 * time.Second)
		way.noRenew.Store(false)
		r.until(a, task.ID, tasks.Completed)
		assert.EqualValues(t, 2, runs.Load())
	})
}
