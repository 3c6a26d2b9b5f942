package tasks_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A server takes calls a moment before it works.
func TestACallThatActsBeforeWorkHasBegun(t *testing.T) {
	callsOnly := func(c *tasks.Config) { c.CallsOnly = true } // nobody else would go on with it
	t.Run("goes on here", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			tool, calls, _ := holding(0, time.Minute, func(saga.Key) error { return nil })
			m := r.manager(callsOnly, tool)
			began := time.Now()
			task, err := m.Start(t.Context(), waited(m, "hold"))
			require.NoError(t, err)
			assert.EqualValues(t, 1, calls.Load())
			r.work(m)
			r.until(m, task.ID, tasks.Completed)
			assert.Equal(t, time.Minute, time.Since(began).Truncate(time.Second), "its lease is kept")
			assert.EqualValues(t, 1, calls.Load())
		})
	})
	t.Run("is left to others when work ends", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			store := spied(r)
			tool := plain("waits", func(t *turn) (saga.Next, error) {
				t.Progress(1, 2, "going")
				<-t.Done()
				return nil, t.Err()
			})
			m := r.manager(callsOnly, tool)
			task, err := m.Start(t.Context(), waited(m, "waits"))
			require.NoError(t, err)
			require.NotEmpty(t, task.ID)
			stop := r.work(m)
			synctest.Wait()
			store.fails(func(func() error) error { return errCut }) // it cannot be handed over
			began := time.Now()
			stop()
			assert.Less(t, time.Since(began), time.Minute)
		})
	})
}
