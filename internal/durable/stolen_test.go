package durable_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A worker takes a task that sleeps just after another server has read it to cancel it. The cancel does not take
// the lease from the worker, whose effect is under way: it is undone as well.
func TestACancelDoesNotStealATaskThatWasJustTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		hold := things.effect("a")
		do := hold.Do
		hold.Do = func(ctx context.Context, key saga.Key, in string) (string, error) {
			time.Sleep(time.Second)
			return do(ctx, key, in)
		}
		tool := saga.Flow[none, string]{
			Info: saga.Info{Name: "sleeps", Tasks: optional, Effects: []saga.Declared{hold}, Asks: []steps.Question{nameForm}},
			Run: func(r *saga.Run, _ none) (string, error) {
				if err := r.Sleep(time.Minute); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, hold, "a"); err != nil {
					return "", err
				}
				form, err := saga.Ask(r, nameForm)
				return form.Name, err
			},
		}
		worker := r.manager(nil, tool)
		stop := r.work(worker)
		task := r.start(worker, call(worker, "sleeps", "{}"))
		time.Sleep(time.Second)
		stop() // until the task is due
		time.Sleep(2 * time.Minute)
		var read atomic.Bool
		between := &storetest.Intercept{Store: r.store, Around: func(_ context.Context, c storetest.Call, next func() error) error {
			err := next()
			if c.Method == "Load" && read.CompareAndSwap(false, true) {
				r.work(worker)
				time.Sleep(500 * time.Millisecond) // it is at the effect
			}
			return err
		}}
		other := r.manager(func(c *durable.Config) { c.Store = between }, tool)
		_, err := other.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		r.work(other)
		r.until(other, task.ID, tasks.Cancelled)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Empty(t, things.held(), "the effect that was under way is undone")
	})
}
