package durable_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// takenOver has a worker lose its task while it performs an effect, which has happened by then,
// and another one perform it again, which ends as second says. The effect is in the first turn
// from its beginning on, or comes after a checkpoint.
func takenOver(t *testing.T, r *rig, later bool, second func(call int32) error) (m *durable.Core, id string, calls, undone *atomic.Int32) {
	calls, undone = new(atomic.Int32), new(atomic.Int32)
	effect := &saga.Effect[hold, string]{
		Name: "hold", Tries: 1,
		Do: func(context.Context, saga.Key, hold) (string, error) {
			n := calls.Add(1)
			if n == 1 {
				time.Sleep(time.Minute)
				return "", errors.New("nobody hears of it")
			}
			return "held", second(n)
		},
		Undo: func(context.Context, saga.Performed[hold, string]) error { undone.Add(1); return nil },
	}
	tool := saga.Machine[none, none]{Info: saga.Info{Name: "book", Tasks: optional, Effects: []saga.Declared{effect}}}
	book := func(t *turn) (saga.Next, error) {
		if _, err := saga.Do(t, effect, hold{Task: "x", What: "a"}); err != nil {
			return nil, err
		}
		return t.Textf("booked")
	}
	tool.Start, tool.Steps = book, saga.Steps[none, none]{"book": book}
	if later {
		tool.Start = func(t *turn) (saga.Next, error) { return t.Goto("book") }
	}
	l := newLink(r.store, newRand(), -1, 0)
	a, err := durable.New(durable.Config{Turns: r.runner(tool), Store: l})
	require.NoError(t, err)
	r.work(a)
	m = r.manager(nil, tool)
	task := r.start(a, call(a, "book", ""))
	time.Sleep(time.Second)
	l.cut()
	r.work(m)
	return m, task.ID, calls, undone
}

func lateOrNot(t *testing.T, test func(t *testing.T, r *rig, later bool)) {
	for _, later := range []bool{false, true} {
		inBubble(t, func(t *testing.T, r *rig) { test(t, r, later) })
	}
}

// What is refused to the second worker may have been done by the first.
func TestARefusalAfterATakeoverIsUndone(t *testing.T) {
	lateOrNot(t, func(t *testing.T, r *rig, later bool) {
		m, id, _, undone := takenOver(t, r, later, func(int32) error { return saga.Refused(errors.New("it is taken")) })
		task := r.until(m, id, tasks.Completed)
		assert.True(t, task.End.Result.IsError)
		assert.EqualValues(t, 1, undone.Load())
		time.Sleep(2 * time.Minute)
	})
}

// As long as it is not known what the first worker did, the second tries again.
func TestAnUnknownEndAfterATakeoverIsTriedAgain(t *testing.T) {
	lateOrNot(t, func(t *testing.T, r *rig, later bool) {
		m, id, calls, undone := takenOver(t, r, later, func(n int32) error {
			if n < 4 {
				return errors.New("no answer")
			}
			return nil
		})
		task := r.until(m, id, tasks.Completed)
		assert.Contains(t, text(t, task), "booked")
		assert.EqualValues(t, 4, calls.Load())
		assert.Zero(t, undone.Load())
		time.Sleep(2 * time.Minute)
	})
}

// Nor does a refusal to whoever cancels it say that the first worker has not done it.
func TestARefusalToTheUndoAfterATakeoverIsUndone(t *testing.T) {
	lateOrNot(t, func(t *testing.T, r *rig, later bool) {
		var cancelled atomic.Bool
		m, id, _, undone := takenOver(t, r, later, func(int32) error {
			if cancelled.Load() {
				return saga.Refused(errors.New("it is taken"))
			}
			return errors.New("no answer")
		})
		time.Sleep(time.Minute)
		cancelled.Store(true)
		_, err := m.Cancel(t.Context(), "p", id)
		require.NoError(t, err)
		r.until(m, id, tasks.Cancelled)
		assert.EqualValues(t, 1, undone.Load())
	})
}

// What is cancelled then, or takes too long, is undone though its end is never known.
func TestAnUnknownEndAfterATakeoverDoesNotKeepFromTheUndo(t *testing.T) {
	for _, cancel := range []bool{true, false} {
		lateOrNot(t, func(t *testing.T, r *rig, later bool) {
			m, id, _, undone := takenOver(t, r, later, func(int32) error { return errors.New("no answer") })
			time.Sleep(time.Minute)
			want := tasks.Failed
			if cancel {
				_, err := m.Cancel(t.Context(), "p", id)
				require.NoError(t, err)
				want = tasks.Cancelled
			}
			r.until(m, id, want)
			assert.EqualValues(t, 1, undone.Load())
		})
	}
}

// What a worker may have done that is gone is not forgotten by one who has taken the task since,
// though he only waits for a place until he is stopped, or has none and puts it back.
func TestWhoPutsATaskBackForgetsNothing(t *testing.T) {
	for _, waits := range []bool{false, true} {
		inBubble(t, func(t *testing.T, r *rig) {
			service := new(unsure)
			effect := service.effect()
			tools := []saga.Definition{
				step(func(t *turn) error { _, err := saga.Do(t, effect, "x"); return err }, effect),
				single("long", func(t *turn) (saga.Next, error) {
					select {
					case <-t.Done():
						return nil, context.Cause(t)
					case <-time.After(time.Hour):
						return t.Textf("done")
					}
				}),
			}
			a, way := r.narrowed(tools...)
			r.work(a)
			task := r.start(a, call(a, "steps", ""))
			time.Sleep(time.Second) // it is being performed
			way.noWrite.Store(true)
			way.noTake.Store(true)
			service.refuses.Store(true)
			taken := noteTakings(r.store)
			b := r.manager(func(c *durable.Config) { c.Store, c.Workers, c.PerPrincipal = taken, 2, 1 }, tools...)
			stop := r.work(b)
			synctest.Wait()
			r.start(b, call(b, "long", "")) // has the place
			if !waits {
				r.start(b, call(b, "long", "")) // and this one waits for it
			}
			time.Sleep(30 * time.Second)
			require.NotEmpty(t, taken.all(), "it was taken")
			stop()
			c := r.manager(nil, tools...)
			r.work(c)
			assert.True(t, r.until(c, task.ID, tasks.Completed).End.Result.IsError)
			assert.EqualValues(t, 1, service.undone.Load(), "waits: %v", waits)
		})
	}
}

// Nor does it make a task forget how many servers have gone down with it that a client writes between.
func TestATaskThatBreaksServersIsGivenUpThoughItIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		way := new(atomic.Pointer[link])
		tool := saga.Machine[none, none]{
			Info:  saga.Info{Name: "breaks", Tasks: optional},
			Start: func(t *turn) (saga.Next, error) { return t.Sleep(time.Minute, "end") },
			Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) {
				if l := way.Load(); l != nil {
					l.cut()
				}
				return t.Textf("done")
			}},
		}
		const attempts = 3
		idle := r.manager(nil, tool)
		id := r.start(idle, call(idle, "breaks", "")).ID
		for n := range attempts {
			l := newLink(r.store, newRand(), -1, 0)
			way.Store(l)
			r.work(r.manager(func(c *durable.Config) { c.Store, c.Attempts = l, attempts }, tool))
			time.Sleep(2 * time.Minute)
			require.True(t, l.dead.Load())
			require.NoError(t, idle.Extend(t.Context(), "p", id, time.Now().Add(time.Duration(n+100)*time.Hour)))
		}
		way.Store(nil)
		r.work(r.manager(func(c *durable.Config) { c.Attempts = attempts }, tool))
		require.ErrorContains(t, r.until(idle, id, tasks.Failed).Err, "given up")
	})
}
