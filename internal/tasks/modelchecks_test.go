package tasks_test

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
)

// check looks at how a task has ended.
func (w *world) check(id, tool string, fail, idle, final bool, task *tasks.Task) {
	t := about{w.seen, id}
	var events []tasks.Event
	// A server that is cut off hears that a task is another's when its lease is over, by its clock.
	for until := time.Now().Add(lease + maxSkew); ; time.Sleep(time.Second) {
		w.tries(id, func(m *tasks.Manager) (err error) {
			events, err = m.Events(context.Background(), "p", id, 0, 1000)
			return err
		})
		if n := len(events); n > 0 && events[n-1].Kind == tasks.EventStatus || !time.Now().Before(until) {
			break
		}
	}
	asked := map[string]int{}
	for i, e := range events {
		assert.Equal(t, uint64(i+1), e.N, "%s: numbers of events", id)
		if e.Kind == tasks.EventQuestion {
			asked[e.Question.ID]++
			assert.Equal(t, 1, asked[e.Question.ID], "%s: %q was asked twice", id, e.Question.ID)
		}
	}
	if assert.NotEmpty(t, events) {
		assert.Equal(t, tasks.EventStatus, events[len(events)-1].Kind, id)
		assert.Equal(t, task.Status, events[len(events)-1].Status, id)
	}
	bad := false
	switch task.Status {
	case tasks.Completed:
		if bad = task.End.Result.IsError; !bad {
			assert.Contains(t, text(w.t, task), "a first b left right c", id)
			assert.False(t, fail, id)
			assert.False(t, idle, id)
		}
	case tasks.Cancelled:
		assert.True(t, w.cancelled(id), id)
		bad = true
	case tasks.Failed:
		assert.True(t, idle, "%s (%s) has failed: %v", id, tool, task.Err)
		bad = true
	}
	deadline := time.Now().Add(24 * time.Hour)
	for {
		left, keys := w.desk.left(id)
		if !bad {
			assert.Equal(t, []string{"a", "b", "c"}, left, "%s: what it holds", id)
			assert.Len(t, keys, 3, "%s: keys", id)
			return
		}
		if len(left) == 0 || final && slices.Equal(left, []string{"a", "b"}) || final && w.desk.doubted(id, "b") && slices.Equal(left, []string{"b"}) {
			return
		}
		if !assert.True(t, time.Now().Before(deadline), "%s (%s) has left %v undone (%v)", id, tool, left, task.Status) {
			return
		}
		time.Sleep(10 * time.Minute)
	}
}
