package tasks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// Operators see the tasks that have not ended, and those that could not be undone, and can have
// them cancelled, or undone once more. Who has other keys sees nothing.
func TestOperatorsSeeTasks(t *testing.T) {
	things := &counter{holds: map[string]bool{}}
	things.before = func(what string) error {
		if what == "a" {
			return errors.New("not now")
		}
		return nil
	}
	nap := saga.Machine[none, none]{
		Info:  saga.Info{Name: "nap", Tasks: optional},
		Start: func(t *turn) (saga.Next, error) { return t.Sleep(time.Hour, "end") },
		Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, things.two(saga.Info{}), nap)
		r.work(m)
		waits, sleeps := r.start(m, call(m, "two", "")).ID, r.start(m, call(m, "nap", "")).ID
		r.until(m, waits, tasks.InputRequired)
		time.Sleep(time.Second)
		book := records.New(r.store, func() *codec.Keyset { return r.keys }, "test", 0)
		list := func(b *records.Book) map[string]records.Waiting {
			found := map[string]records.Waiting{}
			for w, err := range b.List(context.Background()) {
				require.NoError(t, err)
				require.True(t, w.Task)
				found[w.Target.Name] = w
			}
			return found
		}
		found := list(book)
		require.Len(t, found, 2)
		two, other := found["tool:two"], found["tool:nap"]
		if two.Key == "" {
			two, other = found["two"], found["nap"]
		}
		assert.Equal(t, records.Suspended, two.State)
		assert.Equal(t, records.Sleeping, other.State)
		foreign, err := codec.NewKeyset()
		require.NoError(t, err)
		assert.Empty(t, list(records.New(r.store, func() *codec.Keyset { return foreign }, "test", 0)))

		require.NoError(t, book.UndoTask(t.Context(), two.Key))
		r.until(m, waits, tasks.Cancelled)
		left, err := book.Look(t.Context(), two)
		require.NoError(t, err)
		assert.Equal(t, records.Failing, left.State)
		assert.Equal(t, map[string]bool{"a": true}, things.held())
		things.mu.Lock()
		things.before = nil
		things.mu.Unlock()
		require.NoError(t, book.UndoTask(t.Context(), two.Key))
		time.Sleep(time.Second)
		assert.Empty(t, things.held())
		_, err = book.Look(t.Context(), two)
		require.ErrorIs(t, err, records.ErrNothingWaits)
		require.NoError(t, book.UndoTask(t.Context(), other.Key))
		r.until(m, sleeps, tasks.Cancelled)
		assert.Empty(t, list(book))
	})
}
