package durable_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

func TestProgressIsCoalesced(t *testing.T) {
	tool := single("progress", func(t *turn) (saga.Next, error) {
		for n := range 3000 {
			t.Progress(float64(n+1), 3000, fmt.Sprint("at ", n+1))
			time.Sleep(time.Millisecond)
		}
		t.Log(4, map[string]int{"lines": 3})
		time.Sleep(time.Second)
		return t.Textf("done")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, tool)
		r.work(m)
		task := r.start(m, call(m, "progress", ""))
		time.Sleep(100 * time.Millisecond)
		now, err := m.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		require.NotNil(t, now.Progress, "the first is told at once")
		time.Sleep(3 * time.Second)
		now, err = m.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.InDelta(t, 3000, now.Progress.Done, 0)
		assert.Equal(t, "at 3000", now.Message)
		done := r.until(m, task.ID, tasks.Completed)
		events, err := m.Logged(t.Context(), "p", task.ID, 0)
		require.NoError(t, err)
		assert.Equal(t, done.Events, events[len(events)-1].N)
		assert.Less(t, len(events), 36)
		var logs int
		for i, e := range events {
			if assert.True(t, i == 0 || e.N > events[i-1].N); e.Log {
				logs++
			}
		}
		assert.Equal(t, 1, logs)
		rest, err := m.Logged(t.Context(), "p", task.ID, done.Events-2)
		require.NoError(t, err)
		assert.Equal(t, events[len(events)-2:], rest)
	})
}

func TestEventsAreBounded(t *testing.T) {
	tool := single("progress", func(t *turn) (saga.Next, error) {
		for n := range 36000 {
			t.Progress(float64(n+1), 0, "")
			time.Sleep(100 * time.Millisecond)
		}
		return t.Textf("done")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, tool)
		r.work(m)
		task := r.start(m, call(m, "progress", ""))
		done := r.until(m, task.ID, tasks.Completed)
		events, err := m.Logged(t.Context(), "p", task.ID, 0)
		require.NoError(t, err)
		assert.InDelta(t, 750, len(events), 260)
		assert.InDelta(t, 36000, done.Progress.Done, 0, "the last one counts all the same")
	})
}

func TestLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(func(c *durable.Config) { c.Limit = 3 }, greeter())
		r.work(m)
		var first string
		for n := range 3 {
			if task := r.start(m, call(m, "greet", "")); n == 0 {
				first = task.ID
			}
		}
		_, err := m.Start(t.Context(), call(m, "greet", ""))
		require.ErrorIs(t, err, tasks.ErrTooMany)
		_, err = m.Cancel(t.Context(), "p", first)
		require.NoError(t, err)
		r.until(m, first, tasks.Cancelled)
		time.Sleep(200 * time.Millisecond)
		r.start(m, call(m, "greet", ""))
		s := call(m, "greet", "")
		s.Request.Principal = "another"
		r.start(m, s)
		list, next, err := m.List(t.Context(), "p", "", 2)
		require.NoError(t, err)
		more, last, err := m.List(t.Context(), "p", next, 5)
		require.NoError(t, err)
		assert.Empty(t, last)
		assert.Len(t, append(list, more...), 4, "one's own, also those that have ended")
	})
}

func TestAPrincipalWithManyTasksLeavesRoom(t *testing.T) {
	var running, most atomic.Int32
	tool := single("slow", func(t *turn) (saga.Next, error) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		time.Sleep(10 * time.Second)
		return t.Textf("done")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(func(c *durable.Config) { c.Workers = 4 }, tool)
		r.work(m)
		var last *tasks.Task
		for range 100 {
			last = r.start(m, call(m, "slow", ""))
		}
		time.Sleep(time.Minute)
		assert.EqualValues(t, 2, most.Load(), "half of the workers")
		s := call(m, "slow", "")
		s.Request.Principal = "another"
		task := r.start(m, s)
		time.Sleep(10100 * time.Millisecond)
		now, err := m.Get(t.Context(), "another", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Completed, now.Status)
		began := time.Now()
		for task := last; !task.Status.Ended(); task, _ = m.Get(t.Context(), "p", task.ID) {
			time.Sleep(time.Second)
		}
		assert.Less(t, time.Since(began), 10*time.Minute, "and gets its own done")
	})
}
