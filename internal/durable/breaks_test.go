package durable_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

const longerThanAWorkerLives = time.Hour

// breaking is a task that acts, asks, and then takes down each worker that goes on with it, as does its undo as long as
// stuck is set.
type breaking struct {
	r           *rig
	runs, undos atomic.Int32
	stuck       atomic.Bool
}

func (b *breaking) tool() saga.Definition {
	act := &saga.Effect[string, string]{
		Name: "act", Tries: 1,
		Do: func(context.Context, saga.Key, string) (string, error) { return "", nil },
		Undo: func(context.Context, saga.Performed[string, string]) error {
			if b.undos.Add(1); b.stuck.Load() {
				time.Sleep(longerThanAWorkerLives)
			}
			return nil
		},
	}
	return saga.Machine[none, none]{
		Info: saga.Info{Name: "bad", Tasks: optional, Asks: []steps.Question{nameForm}, Effects: []saga.Declared{act}},
		Start: func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, act, ""); err != nil {
				return nil, err
			}
			return t.Ask("end", nameForm)
		},
		Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) {
			b.runs.Add(1)
			time.Sleep(longerThanAWorkerLives)
			return t.Textf("done")
		}},
	}
}

// lives has a worker live for a quarter of a minute, and do something meanwhile.
func (b *breaking) lives(t *testing.T, do func(m *durable.Core)) {
	l := newLink(b.r.store, newRand(), -1, 0)
	m, err := durable.New(durable.Config{Turns: b.r.runner(b.tool()), Store: l, Attempts: 3})
	require.NoError(t, err)
	b.r.work(m)
	do(m)
	time.Sleep(15 * time.Second)
	l.cut()
}

// begins has the task begun, and answered, with the first worker.
func (b *breaking) begins(t *testing.T) (id string) {
	b.lives(t, func(m *durable.Core) {
		task := b.r.until(m, b.r.start(m, call(m, "bad", "")).ID, tasks.InputRequired)
		id = task.ID
		_, err := m.Answer(t.Context(), "p", id, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
		require.NoError(t, err)
	})
	return id
}

func nothingToDo(*durable.Core) {}

// A task that is cancelled after it has taken workers down is run again to find out what it has done, but not by more
// workers than would have gone on with it.
func TestATaskThatBreaksWorkersIsCancelled(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		b := &breaking{r: r}
		id := b.begins(t)
		b.lives(t, func(m *durable.Core) {
			_, err := m.Cancel(t.Context(), "p", id)
			require.NoError(t, err)
		})
		for range 3 {
			b.lives(t, nothingToDo)
		}
		b.lives(t, func(m *durable.Core) {
			task, err := m.Get(t.Context(), "p", id)
			require.NoError(t, err)
			assert.Equal(t, tasks.Cancelled, task.Status)
		})
		assert.EqualValues(t, 3, b.runs.Load())
		assert.EqualValues(t, 1, b.undos.Load())
		time.Sleep(longerThanAWorkerLives)
	})
}

// An undo that takes workers down is tried by a few, then left for later, and in the end for operators, who see it.
func TestAnUndoThatBreaksWorkersIsLeftForLater(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		b := &breaking{r: r}
		b.stuck.Store(true)
		id := b.begins(t)
		for range 12 { // three go on with it, and three try to undo it
			b.lives(t, nothingToDo)
		}
		b.lives(t, func(m *durable.Core) {
			for w, err := range m.Waiting(t.Context()) {
				require.NoError(t, err)
				assert.Equal(t, durable.Failing, w.State)
				assert.Contains(t, w.LastError, "went down")
				assert.Positive(t, w.Failures)
				assert.False(t, w.Due.IsZero())
				record, err := r.store.Load(t.Context(), w.ID)
				require.NoError(t, err)
				assert.True(t, record.Status == store.Undoing && record.Wake.After(record.Now) && !record.Until.After(record.Now), "package telemetry counts it as failing by this")
			}
		})
		assert.LessOrEqual(t, b.undos.Load(), int32(9), "pauses grow")
		b.stuck.Store(false)
		b.lives(t, func(m *durable.Core) {
			for w, err := range m.Waiting(t.Context()) {
				require.NoError(t, err)
				require.NoError(t, m.UndoNow(t.Context(), w.ID))
			}
			task := r.until(m, id, tasks.Failed)
			require.ErrorContains(t, task.Err, "given up")
		})
		time.Sleep(longerThanAWorkerLives) // what hangs ends
	})
}
