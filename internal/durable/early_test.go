package durable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A server takes calls a moment before it works.
func TestACallThatActsBeforeWorkHasBegun(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool, calls, _ := holding(0, time.Minute, func(saga.Key) error { return nil })
		m := r.manager(func(c *durable.Config) { c.Workers = -1 }, tool) // nobody else would go on with it
		began := time.Now()
		var task *tasks.Task
		var err error
		started := make(chan none)
		go func() {
			defer close(started)
			task, err = m.Start(t.Context(), waited(m, "hold"))
		}()
		time.Sleep(20 * time.Millisecond)
		r.work(m)
		<-started
		require.NoError(t, err)
		r.until(m, task.ID, tasks.Completed)
		assert.Equal(t, time.Minute, time.Since(began).Truncate(time.Second), "its lease is kept")
		assert.EqualValues(t, 1, calls.Load())
	})
}
