package durable_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Operators see by the statuses of rows what waits, what sleeps, and what could not be undone. Who has
// other keys sees nothing of what the rows say.
func TestStatusesOfRows(t *testing.T) {
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
		all := []store.Status{store.Working, store.Waiting, store.Sleeping, store.Undoing, store.Outstanding, store.Ended}
		statuses := func() map[string]store.Status {
			list, err := r.store.List(t.Context(), store.Filter{Audience: "test", Statuses: all}, store.Cursor{}, 10)
			require.NoError(t, err)
			found := map[string]store.Status{}
			for _, record := range list {
				found[record.Tool] = record.Status
			}
			return found
		}
		two, other := m.Turns.Registry.Of(0)[0].Target, m.Turns.Registry.Of(0)[1].Target
		if m.Turns.Registry.Of(0)[0].Name == "nap" {
			two, other = other, two
		}
		assert.Equal(t, map[string]store.Status{two: store.Waiting, other: store.Sleeping}, statuses())

		_, err := m.Cancel(t.Context(), "p", waits)
		require.NoError(t, err)
		_, err = m.Cancel(t.Context(), "p", sleeps)
		require.NoError(t, err)
		r.until(m, waits, tasks.Cancelled)
		r.until(m, sleeps, tasks.Cancelled)
		assert.Equal(t, map[string]store.Status{two: store.Outstanding, other: store.Ended}, statuses())
		assert.Equal(t, map[string]bool{"a": true}, things.held())
		things.mu.Lock()
		things.before = nil
		things.mu.Unlock()
		time.Sleep(5 * time.Minute)
		assert.Empty(t, things.held())
		assert.Equal(t, map[string]store.Status{two: store.Ended, other: store.Ended}, statuses())

		r.keys, err = codec.NewKeyset()
		require.NoError(t, err)
		foreign := r.manager(nil, nap)
		list, _, err := foreign.List(t.Context(), "p", "", 10)
		require.NoError(t, err)
		assert.Empty(t, list)
		_, err = foreign.Get(t.Context(), "p", waits)
		require.Error(t, err)
	})
}

// An operator has a store and keys, and none of the tools: servers do what is asked for.
func TestOperatorsHaveTasksUndone(t *testing.T) {
	things := &counter{holds: map[string]bool{}}
	var failing atomic.Bool
	things.before = func(string) error {
		if failing.Load() {
			return errors.New("not now")
		}
		return nil
	}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, things.two(saga.Info{}), greeter())
		r.work(m)
		o := durable.NewOperator(r.store, func() *codec.Keyset { return r.keys }, "test")
		begin := func() (w durable.Waiting, task string) {
			task = r.start(m, call(m, "two", "")).ID
			r.until(m, task, tasks.InputRequired)
			for w = range o.Waiting(t.Context()) {
			}
			return w, task
		}
		undone, task := begin()
		assert.Equal(t, durable.Suspended, undone.State)
		require.NoError(t, o.UndoNow(t.Context(), undone.ID))
		r.until(m, task, tasks.Cancelled)
		assert.Empty(t, things.held())
		_, err := o.Look(t.Context(), undone.ID)
		require.ErrorIs(t, err, durable.ErrNothingWaits)
		require.ErrorIs(t, o.UndoNow(t.Context(), undone.ID), durable.ErrNothingWaits)

		// What fails is tried again at once when that is asked for.
		failing.Store(true)
		fails, task := begin()
		require.NoError(t, o.UndoNow(t.Context(), fails.ID))
		r.until(m, task, tasks.Cancelled)
		for tries := 1; tries <= 2; tries++ {
			w, err := o.Look(t.Context(), fails.ID)
			require.NoError(t, err)
			assert.Equal(t, durable.Failing, w.State)
			assert.Equal(t, tries, w.Failures)
			require.NoError(t, o.UndoNow(t.Context(), fails.ID))
			time.Sleep(5 * time.Second)
		}
		failing.Store(false)
		require.NoError(t, o.UndoNow(t.Context(), fails.ID))
		time.Sleep(5 * time.Second)
		assert.Empty(t, things.held())

		greeted := r.start(m, call(m, "greet", "")).ID
		question := r.until(m, greeted, tasks.InputRequired).Questions[0].ID
		var w durable.Waiting
		for w = range o.Waiting(t.Context()) {
		}
		_, err = m.Answer(t.Context(), "p", greeted, []steps.Answer{accept(question, `{"name":"Ada"}`)})
		require.NoError(t, err)
		r.until(m, greeted, tasks.Completed)
		_, err = o.Look(t.Context(), w.ID)
		require.ErrorIs(t, err, durable.ErrTooLate)

		for range o.Waiting(t.Context()) {
			t.Error("nothing waits")
		}
		var all []durable.State
		for w, err := range o.All(t.Context()) {
			require.NoError(t, err)
			all = append(all, w.State)
		}
		assert.Equal(t, []durable.State{durable.Over, durable.Over, durable.Over}, all)
		var ends []string
		for e, err := range o.History(t.Context(), w.ID) {
			require.NoError(t, err)
			assert.NotContains(t, e.Text, "Ada")
			ends = append(ends, e.Kind+" "+e.Text)
		}
		assert.Equal(t, "end completed", ends[len(ends)-1])
	})
}

// An operator closes what was seen to by hand: nothing of it is undone any more, and its client learns that it has ended.
func TestOperatorsCloseTasks(t *testing.T) {
	things := &counter{holds: map[string]bool{}}
	var failing atomic.Bool
	things.before = func(string) error {
		if failing.Load() {
			return errors.New("not now")
		}
		return nil
	}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, things.two(saga.Info{}))
		r.work(m)
		begin := func() (w durable.Waiting, task string) {
			task = r.start(m, call(m, "two", "")).ID
			r.until(m, task, tasks.InputRequired)
			for w = range m.Waiting(t.Context()) {
			}
			return w, task
		}
		waits, task := begin()
		time.Sleep(time.Hour)
		stays, err := m.CloseNow(t.Context(), waits.ID)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, stays)
		_, err = m.Look(t.Context(), waits.ID)
		require.ErrorIs(t, err, durable.ErrClosed)
		got := r.until(m, task, tasks.Failed)
		require.ErrorContains(t, got.Err, "What it did stays")
		assert.WithinDuration(t, time.Now(), got.Updated, time.Second, "else its client takes it for one that ended long ago")
		_, err = m.CloseNow(t.Context(), waits.ID)
		require.ErrorIs(t, err, durable.ErrNothingWaits)
		require.ErrorIs(t, m.UndoNow(t.Context(), waits.ID), durable.ErrNothingWaits)
		held := things.held()
		assert.NotEmpty(t, held)

		failing.Store(true)
		fails, task := begin()
		_, err = m.Cancel(t.Context(), "p", task)
		require.NoError(t, err)
		r.until(m, task, tasks.Cancelled)
		_, err = m.CloseNow(t.Context(), fails.ID)
		require.NoError(t, err)
		failing.Store(false)
		time.Sleep(24 * time.Hour)
		assert.Equal(t, held, things.held(), "nothing was undone")
		ends := 0
		for e, err := range m.History(t.Context(), fails.ID) {
			require.NoError(t, err)
			if e.Kind == "end" {
				ends++
			}
		}
		assert.Equal(t, 1, ends, "it was cancelled")
		for range m.Waiting(t.Context()) {
			t.Error("nothing waits")
		}
	})
}

// What an operator wants undone is undone also if its client has it become a task before a worker comes to it.
func TestOperatorsHaveUndoneWhatBecomesATask(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newShop()
		order := &saga.Effect[hold, string]{Name: "order", Do: s.do, Undo: s.undo}
		tool := saga.Flow[none, string]{
			Info: saga.Info{Name: "buy", Tasks: optional, Asks: []steps.Question{nameForm}, Effects: []saga.Declared{order}},
			Run: func(r *saga.Run, _ none) (string, error) {
				if _, err := saga.Do(r, order, hold{Task: "buy", What: "a"}); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, nameForm)
				return "done", err
			},
		}
		m := r.manager(func(c *durable.Config) { c.Workers = -1 }, tool)
		end, err := m.Turns.Call(t.Context(), call(m, "buy", "{}").Request)
		require.NoError(t, err)
		for w, err := range m.Waiting(t.Context()) {
			require.NoError(t, err)
			require.NoError(t, m.UndoNow(t.Context(), w.ID))
		}
		begun := call(m, "buy", "")
		begun.Request.Token, begun.AtOnce = end.Token, true
		begun.Request.Answers = []steps.Answer{accept(end.Steps[0].ID, `{"name":"Ada"}`)}
		task := r.start(m, begun)
		n := r.manager(nil, tool)
		r.work(n)
		r.until(n, task.ID, tasks.Cancelled)
		left, _ := s.left("buy")
		assert.Empty(t, left)
	})
}
