package durable_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
)

type page struct{ Lines []string }

func TestDocumentsAreChangedByOneAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.manager(nil, greeter()), r.manager(nil, greeter())
		name := a.DocumentName("session", "secret")
		add := func(m *durable.Core, line string, found *durable.Document[page]) *durable.Document[page] {
			d, err := durable.ChangeDocument(t.Context(), m, "p", name, time.Now().Add(time.Hour), found, func(p *page) (bool, error) {
				p.Lines = append(p.Lines[:len(p.Lines):len(p.Lines)], line)
				return true, nil
			})
			require.NoError(t, err)
			return d
		}
		stale := add(a, "one", nil)
		add(b, "two", nil)
		d := add(a, "three", stale)
		assert.Equal(t, []string{"one", "two", "three"}, d.Value.Lines)
		read, err := durable.ReadDocument[page](t.Context(), b, name)
		require.NoError(t, err)
		assert.Equal(t, d.Value, read.Value)
		assert.Equal(t, d.Version(), read.Version())
		none, err := durable.ReadDocument[page](t.Context(), b, b.DocumentName("session", "another"))
		require.NoError(t, err)
		assert.False(t, none.Exists())
		time.Sleep(2 * time.Hour)
		n, err := r.store.Forget(t.Context(), 10)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
	})
}

func TestNoticesReachEveryProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.manager(nil, greeter()), r.manager(nil, greeter())
		type told struct {
			list []durable.Notice
			lost bool
		}
		got := make(chan told, 100)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = b.Notices(ctx, func(list []durable.Notice, _ uint64, lost bool) { got <- told{list, lost} }, func(context.Context, error) {})
		}()
		assert.Equal(t, told{}, <-got, "none yet")
		synctest.Wait()
		began := time.Now()
		require.NoError(t, a.Tell(t.Context(), []durable.Notice{{By: "a", Kind: "tools"}, {By: "a", Kind: "resource", Of: "file:x"}}))
		first := <-got
		assert.Less(t, time.Since(began), time.Second)
		assert.Equal(t, told{list: []durable.Notice{{1, "a", "tools", ""}, {2, "a", "resource", "file:x"}}}, first)
		many := make([]durable.Notice, 5000)
		for i := range many {
			many[i] = durable.Notice{By: "a", Kind: "session"}
		}
		require.NoError(t, a.Tell(t.Context(), many))
		list, newest, lost, err := b.Noticed(t.Context(), 2)
		require.NoError(t, err)
		assert.True(t, lost, "the oldest were removed")
		assert.EqualValues(t, 5002, newest)
		assert.Less(t, len(list), 2000)
		_, _, lost, err = b.Noticed(t.Context(), newest+7)
		require.NoError(t, err)
		assert.True(t, lost, "a number of another store")
		cancel()
		synctest.Wait()
	})
}

func TestOperatorsSeeWhatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, greeter())
		r.work(m)
		task := r.start(m, call(m, "greet", ""))
		r.until(m, task.ID, tasks.InputRequired)
		var seen []durable.Waiting
		for w, err := range m.Waiting(t.Context()) {
			require.NoError(t, err)
			seen = append(seen, w)
		}
		require.Len(t, seen, 1)
		assert.Equal(t, durable.Suspended, seen[0].State)
		assert.Equal(t, "greet", seen[0].Tool)
		assert.Equal(t, []bool{true, false}, []bool{seen[0].Task, seen[0].Call})
		look, err := m.Look(t.Context(), seen[0].ID)
		require.NoError(t, err)
		assert.Equal(t, seen[0], look)
		_, err = m.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		r.until(m, task.ID, tasks.Cancelled)
		_, err = m.Look(t.Context(), seen[0].ID)
		require.ErrorIs(t, err, durable.ErrNothingWaits)
		var kinds []string
		for e, err := range m.History(t.Context(), seen[0].ID) {
			require.NoError(t, err)
			kinds = append(kinds, e.Kind)
		}
		assert.Equal(t, []string{"begun", "turn", "question", "cancel", "end"}, kinds)
		_, err = m.Look(t.Context(), store.ID{1})
		require.ErrorIs(t, err, durable.ErrNothingWaits)
		r.start(m, waited(m, "greet"))
		for w, err := range m.Waiting(t.Context()) {
			require.NoError(t, err)
			assert.True(t, w.Call)
			assert.False(t, w.Task, "its session ends it")
			seen = append(seen, w)
		}
		assert.Len(t, seen, 2)
	})
}
