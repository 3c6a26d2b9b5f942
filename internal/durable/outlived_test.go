package durable_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What of tasks has to outlive their workers, their clients and their ends.

// forgets has the ledger forget what it may.
func forgets(t *testing.T, m *durable.Core) {
	_, err := m.Store.Forget(t.Context(), 1000)
	require.NoError(t, err)
}

// What could not be undone when a task ended is not forgotten before it is, nor dropped as a try
// does not come to it.
func TestWhatIsOutstandingIsUndoneLater(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		var works atomic.Bool
		things.before = func(string) error {
			if works.Load() {
				return nil
			}
			return errors.New("not now")
		}
		m := r.manager(nil, things.two(saga.Info{}))
		var refuses atomic.Int32
		m.Turns.Hook = func(ctx context.Context, _ *turns.Turn, take func(context.Context) error) error {
			if refuses.Add(-1) >= 0 {
				return errors.New("not today")
			}
			return take(ctx)
		}
		r.work(m)
		s := call(m, "two", "")
		s.TTL = time.Minute
		task := r.until(m, r.start(m, s).ID, tasks.InputRequired)
		_, err := m.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		r.until(m, task.ID, tasks.Cancelled)
		refuses.Store(2)
		for range 24 {
			time.Sleep(time.Hour)
			forgets(t, m)
		}
		assert.Less(t, refuses.Load(), int32(0), "it was tried again")
		assert.Len(t, things.held(), 2)
		_, err = m.Get(t.Context(), "p", task.ID)
		require.ErrorIs(t, err, tasks.ErrNotFound, "its client does not see it any more")
		works.Store(true)
		time.Sleep(7 * time.Hour)
		assert.Empty(t, things.held())
	})
}

// It is not tried again without end.
func TestAnUndoIsGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		var tries atomic.Int32
		things.before = func(string) error { tries.Add(1); return errors.New("never") }
		m := r.manager(nil, things.two(saga.Info{}))
		stop := r.work(m)
		task := r.until(m, r.start(m, call(m, "two", "")).ID, tasks.InputRequired)
		_, err := m.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		r.until(m, task.ID, tasks.Cancelled)
		stop()
		works := func() (tried int32) {
			before := tries.Load()
			stop := r.work(m)
			time.Sleep(13 * time.Hour)
			stop()
			return tries.Load() - before
		}
		time.Sleep(13 * 24 * time.Hour)
		assert.GreaterOrEqual(t, works(), int32(3*2), "at once, and at least each six hours")
		time.Sleep(24 * time.Hour)
		assert.EqualValues(t, 2, works(), "once more")
		assert.Zero(t, works())
	})
}

// A task that waits is not forgotten when its time is over while no server is there to end it.
func TestATaskOutlivesItsServers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		a, b := r.manager(nil, things.two(saga.Info{})), r.manager(nil, things.two(saga.Info{}))
		stop := r.work(a)
		r.until(a, r.start(a, call(a, "two", "")).ID, tasks.InputRequired)
		stop()
		time.Sleep(20 * 24 * time.Hour)
		forgets(t, b)
		r.work(b)
		time.Sleep(time.Minute)
		assert.Empty(t, things.held())
	})
}

// A task that runs when its time is over is undone by whoever goes on with it, also if its client
// wants it again by then; and nobody cancels it any more.
func TestATaskThatIsOverIsNotWantedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		effect := things.effect("a")
		tool := step(func(t *turn) error {
			if _, err := saga.Do(t, effect, "x"); err != nil {
				return err
			}
			<-t.Done()
			return context.Cause(t)
		}, effect)
		a, way := r.narrowed(tool)
		b := r.manager(nil, tool)
		hangs, reached := make(chan none), new(atomic.Bool)
		things.before = func(string) error {
			reached.Store(true)
			<-hangs
			return errors.New("dead")
		}
		r.work(a)
		s := call(a, "steps", "")
		s.Patience = time.Hour
		task := r.start(a, s)
		time.Sleep(time.Hour + time.Second)
		things.mu.Lock()
		require.True(t, reached.Load())
		things.before = nil
		things.mu.Unlock()
		now, err := b.Renew(t.Context(), "p", task.ID, time.Hour, nil)
		require.NoError(t, err)
		assert.Equal(t, tasks.Working, now.Status)
		before := now.Rev
		now, err = b.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.False(t, now.Cancelling, "it is being undone already")
		assert.Equal(t, before, now.Rev)
		way.noWrite.Store(true)
		way.noTake.Store(true)
		close(hangs)
		r.work(b)
		began := time.Now()
		task = r.until(b, task.ID, tasks.Failed)
		assert.Less(t, time.Since(began), time.Minute)
		assert.Empty(t, things.held())
		require.ErrorContains(t, task.Err, "longer than its time to live. What it did was undone.")
	})
}

// Questions may be answered one after the other, in any order. The numbers of all differ, and
// the task knows which answer was to which.
func TestAnswersComeOneByOne(t *testing.T) {
	other := &steps.Form[struct {
		Name string `json:"name"`
	}]{ID: "other", Message: "And theirs?"}
	inBubble(t, func(t *testing.T, r *rig) {
		var fails atomic.Bool
		tool := saga.Machine[none, none]{
			Info:  saga.Info{Name: "asks", Tasks: optional, Asks: []steps.Question{nameForm, other}},
			Start: func(t *turn) (saga.Next, error) { return t.Ask("more", nameForm, other) },
			Steps: saga.Steps[none, none]{
				"more": func(t *turn) (saga.Next, error) {
					a, err := nameForm.Answer(t)
					if err != nil || a.Name != "Ada" {
						return nil, errors.Join(err, errors.New("not Ada"))
					}
					b, err := other.Answer(t)
					if err != nil || b.Name != "Bo" {
						return nil, errors.Join(err, errors.New("not Bo"))
					}
					return t.Goto("work")
				},
				"work": func(t *turn) (saga.Next, error) {
					if !fails.Swap(true) {
						time.Sleep(time.Hour)
					}
					return t.Ask("end", nameForm)
				},
				"end": func(t *turn) (saga.Next, error) { return t.Textf("done") },
			},
		}
		a, way := r.narrowed(tool)
		r.work(a)
		task := r.until(a, r.start(a, call(a, "asks", "")).ID, tasks.InputRequired)
		require.Equal(t, []uint64{1, 2}, task.Numbers)
		now, err := a.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[1].ID, `{"name":"Bo"}`)})
		require.NoError(t, err)
		require.Len(t, now.Given, 1)
		assert.EqualValues(t, 2, now.Given[0].Number)
		assert.Equal(t, []uint64{1}, now.Numbers)
		_, err = a.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
		require.NoError(t, err)
		for end := time.Now().Add(time.Minute); !fails.Load(); time.Sleep(time.Second) {
			require.True(t, time.Now().Before(end), "the turn begins in good time")
		}
		// Whoever goes on after the checkpoint has none of these questions before him.
		way.noWrite.Store(true)
		way.noTake.Store(true)
		b := r.manager(nil, tool)
		r.work(b)
		time.Sleep(time.Minute)
		now, err = b.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		require.Equal(t, tasks.InputRequired, now.Status)
		require.Len(t, now.Questions, 1)
		assert.NotEqual(t, task.Questions[0].ID, now.Questions[0].ID)
		assert.Equal(t, []uint64{3}, now.Numbers)
	})
}

// As long as somebody wants a task that rests, nothing is done about it when it would have been
// over.
func TestARenewedTaskRestsOn(t *testing.T) {
	sleeps := saga.Machine[none, none]{
		Info:  saga.Info{Name: "sleeps", Tasks: optional},
		Start: func(t *turn) (saga.Next, error) { return t.Sleep(6*time.Hour, "end") },
		Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	}
	for _, name := range []string{"greet", "sleeps"} {
		inBubble(t, func(t *testing.T, r *rig) {
			m := r.manager(nil, sleeps, greeter())
			r.work(m)
			s := call(m, name, "")
			s.Patience = time.Hour
			task := r.start(m, s)
			time.Sleep(30 * time.Minute)
			renewed, err := m.Renew(t.Context(), "p", task.ID, 2*time.Hour, nil)
			require.NoError(t, err)
			time.Sleep(time.Hour)
			now, err := m.Get(t.Context(), "p", task.ID)
			require.NoError(t, err)
			assert.Equal(t, renewed.Rev, now.Rev, "it was taken for nothing")
			time.Sleep(2 * time.Hour)
			r.until(m, task.ID, tasks.Failed)
		})
	}
}
