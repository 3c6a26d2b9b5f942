package durable_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Whoever was away for longer than his lease finds, before he writes anything, that the task is
// somebody else's, though nothing has told him.
func TestWhoIsLateWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		slow := step(func(*turn) error { time.Sleep(time.Minute); return nil })
		a, way := r.narrowed(slow)
		r.work(a)
		task := r.start(a, call(a, "steps", ""))
		way.noWrite.Store(true)
		way.noListen.Store(true)
		way.noLoad.Store(true)
		way.noTake.Store(true)
		b := r.manager(nil, step(func(*turn) error { time.Sleep(time.Hour); return nil }))
		r.work(b)
		time.Sleep(59 * time.Second) // b has it by now
		way.noWrite.Store(false)
		way.noLoad.Store(false)
		before, err := b.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		now, err := b.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Working, now.Status)
		assert.Equal(t, before.Events, now.Events)
		assert.Contains(t, text(t, r.until(b, task.ID, tasks.Completed)), "done")
	})
}

// Who cannot write is told by the record that another one has taken the task, and stops at once.
func TestWhoHasLostATaskIsCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var cut atomic.Int64
		a, way := r.narrowed(step(func(t *turn) error {
			<-t.Done()
			cut.Store(time.Now().UnixNano())
			return context.Cause(t)
		}))
		r.work(a)
		task := r.start(a, call(a, "steps", ""))
		time.Sleep(time.Second)
		way.noWrite.Store(true)
		way.noTake.Store(true)
		b := r.manager(nil, step(func(*turn) error { return nil }))
		r.work(b)
		r.until(b, task.ID, tasks.Completed)
		time.Sleep(10 * time.Millisecond)
		assert.NotZero(t, cut.Load(), "it runs on for nobody")
	})
}

// Nobody performs an effect whose lease is over, though he has heard of nothing, and his clock was set
// back meanwhile.
func TestNoEffectWithoutALease(t *testing.T) {
	for _, back := range []time.Duration{0, time.Hour} {
		inBubble(t, func(t *testing.T, r *rig) {
			var acts atomic.Int32
			effect := &saga.Effect[string, string]{
				Name: "act", Do: func(context.Context, saga.Key, string) (string, error) { acts.Add(1); return "", nil },
				Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
			}
			act := func(wait time.Duration) saga.Definition {
				return step(func(t *turn) error {
					time.Sleep(wait)
					_, err := saga.Do(t, effect, "x")
					return err
				}, effect)
			}
			a, way := r.narrowed(act(11 * time.Second))
			var set atomic.Int64
			a.Turns.Now = func() time.Time { return time.Now().Add(-time.Duration(set.Load())) }
			r.work(a)
			task := r.start(a, call(a, "steps", ""))
			way.dies()
			way.noListen.Store(true)
			way.noLoad.Store(true)
			set.Store(int64(back))
			time.Sleep(12 * time.Second)
			assert.Zero(t, acts.Load())
			b := r.manager(nil, act(0))
			r.work(b)
			r.until(b, task.ID, tasks.Completed)
			assert.EqualValues(t, 1, acts.Load())
		})
	}
}

// Nor does who is to hand the task over.
func TestNoEffectWhileATaskIsHandedOver(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var acts [2]atomic.Int32
		act := func(n int) saga.Definition {
			effect := &saga.Effect[string, string]{
				Name: "act", Do: func(context.Context, saga.Key, string) (string, error) { acts[n].Add(1); return "", nil },
				Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
			}
			return step(func(t *turn) error {
				time.Sleep(time.Second)
				_, err := saga.Do(t, effect, "x")
				return err
			}, effect)
		}
		a, b := r.manager(nil, act(0)), r.manager(nil, act(1))
		stop := r.work(a)
		task := r.start(a, call(a, "steps", ""))
		time.Sleep(100 * time.Millisecond)
		stop()
		r.work(b)
		r.until(b, task.ID, tasks.Completed)
		assert.Zero(t, acts[0].Load())
		assert.EqualValues(t, 1, acts[1].Load())
	})
}

// An answer that comes when somebody has taken the task, as its time is over, is not taken: he may
// be about to end it.
func TestAnAnswerIsNotForATaskThatIsTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, way := r.narrowed(greeter())
		b := r.manager(nil, greeter())
		r.work(a)
		s := call(a, "greet", "")
		s.Patience = time.Hour
		task := r.until(a, r.start(a, s).ID, tasks.InputRequired)
		way.noWrite.Store(true)
		time.Sleep(time.Hour + time.Second) // a has taken it, and cannot write that it is over
		now, err := b.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
		require.NoError(t, err)
		assert.Empty(t, now.Given)
		assert.Len(t, now.Questions, 1)
		way.noWrite.Store(false)
		require.ErrorContains(t, r.until(b, task.ID, tasks.Failed).Err, "time to live")
	})
}

// What a client writes while another one does is not lost.
func TestTwoClientsWriteAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.manager(nil, greeter())
		b, way := r.narrowed(greeter())
		r.work(a)
		task := r.until(a, r.start(a, call(a, "greet", "")).ID, tasks.InputRequired)
		keep := time.Now().Add(100 * time.Hour)
		way.next(func() { require.NoError(t, a.Extend(t.Context(), "p", task.ID, keep)) })
		_, err := b.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
		require.NoError(t, err)
		r.until(a, task.ID, tasks.Completed)
		require.NoError(t, a.Extend(t.Context(), "p", task.ID, time.Now().Add(time.Minute)), "it is not kept for less")
		time.Sleep(99 * time.Hour)
		_, err = a.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
	})
}

// A client that cancels a task at the very time when its turn ends with a question or a sleep does
// not wait for the end of that.
func TestACancelAtTheEndOfATurn(t *testing.T) {
	for name, start := range map[string]func(t *turn) (saga.Next, error){
		"asks":   func(t *turn) (saga.Next, error) { return t.Ask("end", nameForm) },
		"sleeps": func(t *turn) (saga.Next, error) { return t.Sleep(6*time.Hour, "end") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tool := saga.Machine[none, none]{
					Info: saga.Info{Name: "soon", Tasks: optional, Asks: []steps.Question{nameForm}},
					Start: func(t *turn) (saga.Next, error) {
						time.Sleep(30 * time.Millisecond) // the record is not watched yet
						return start(t)
					},
					Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
				}
				a, b := r.manager(nil, tool), r.manager(nil, tool)
				r.work(a)
				task := r.start(a, call(a, "soon", ""))
				time.Sleep(10 * time.Millisecond)
				_, err := b.Cancel(t.Context(), "p", task.ID)
				require.NoError(t, err)
				began := time.Now()
				r.until(b, task.ID, tasks.Cancelled)
				assert.Less(t, time.Since(began), time.Second)
			})
		})
	}
}

// A server that is too old to go on with a task leaves it to others at once, also when it was there
// that the task was cancelled.
func TestAnOldServerCancelsANewTask(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		older, newer := r.manager(nil, things.two(saga.Info{Revision: 1})), r.manager(nil, things.two(saga.Info{Revision: 2}))
		r.work(older)
		r.work(newer)
		task := r.until(newer, r.start(newer, call(newer, "two", "")).ID, tasks.InputRequired)
		_, err := older.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		began := time.Now()
		r.until(newer, task.ID, tasks.Cancelled)
		assert.Less(t, time.Since(began), 5*time.Second)
		assert.Empty(t, things.held())
	})
}

// Who has lost a task without knowing it has what was told since looked up.
func TestWhoIsLateAsksForEvents(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, way := r.narrowed(step(func(*turn) error { time.Sleep(time.Minute); return nil }))
		r.work(a)
		task := r.start(a, call(a, "steps", ""))
		way.noWrite.Store(true)
		way.noListen.Store(true)
		way.noTake.Store(true)
		b := r.manager(nil, step(func(*turn) error { return nil }))
		r.work(b)
		r.until(b, task.ID, tasks.Completed)
		events, err := a.Logged(t.Context(), "p", task.ID, 0)
		require.NoError(t, err)
		assert.Len(t, events, 1)
	})
}
