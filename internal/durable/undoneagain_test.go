package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
)

// Who looks at a saga that has ended while a worker undoes what was left of it gets it at once.
func TestLookingAtWhatIsUndoneAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		things := &counter{holds: map[string]bool{}}
		things.before = func(string) error { return errors.New("not now") }
		m := r.manager(nil, things.two(saga.Info{}))
		r.work(m)
		task := r.until(m, r.start(m, call(m, "two", "")).ID, tasks.InputRequired)
		_, err := m.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		r.until(m, task.ID, tasks.Cancelled)
		hangs := make(chan none)
		defer close(hangs)
		things.mu.Lock()
		things.before = func(string) error { <-hangs; return errors.New("not now") }
		things.mu.Unlock()
		time.Sleep(time.Minute + 5*time.Second)

		var writes atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		counting := &intercept.Store{Store: r.store, Around: func(_ context.Context, c intercept.Call, next func() error) error {
			if c.Method == "Write" && writes.Add(1) > 100 {
				cancel()
			}
			return next()
		}}
		other, err := durable.New(durable.Config{Turns: r.runner(things.two(saga.Info{})), Store: counting})
		require.NoError(t, err)
		renewed, err := other.Renew(ctx, "p", task.ID, time.Hour, func(json.RawMessage) json.RawMessage { return json.RawMessage(`{"a":1}`) })
		require.NoError(t, err)
		assert.Equal(t, tasks.Cancelled, renewed.Status)
		assert.Zero(t, writes.Load())
	})
}

// A call whose key is that of a call which broke waits for the worker that just undoes it.
func TestKeyOfWhatIsUndoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Pointer[chan none]
		var held atomic.Int64
		hold := &saga.Effect[string, string]{
			Name: "hold", Tries: 1,
			Do: func(context.Context, saga.Key, string) (string, error) {
				held.Add(1)
				return "", nil
			},
			Undo: func(context.Context, saga.Performed[string, string]) error {
				if c := hangs.Load(); c != nil {
					<-*c
				}
				return errors.New("not now")
			},
		}
		s := newFleet(t, saga.Flow[tripArgs, string]{Info: saga.Info{Name: "trip", Effects: []saga.Declared{hold}}, Run: func(r *saga.Run, in tripArgs) (string, error) {
			if _, err := saga.Do(r, hold, "x"); err != nil {
				return "", err
			}
			panic("oops")
		}})
		a, b := s.replica(), s.replica()
		_, err := a.Drive(a.context(), heldCall(a, `{"to":"Rome"}`), agrees)
		require.Error(t, err)
		stop := a.work(t)
		c := make(chan none)
		hangs.Store(&c)
		time.Sleep(time.Minute + 5*time.Second)

		var ops atomic.Int64
		ctx, cancel := context.WithCancel(b.context())
		defer cancel()
		b.line.on(func(int, string) error {
			if ops.Add(1) > 200 {
				cancel()
			}
			return nil
		})
		time.AfterFunc(5*time.Second, func() { // the undo of the worker fails
			hangs.Store(nil)
			close(c)
		})
		_, err = b.Drive(ctx, heldCall(b, `{"to":"Rome"}`), agrees)
		var failed *turns.Error
		require.ErrorAs(t, err, &failed, "the tool panics again")
		require.NoError(t, ctx.Err())
		assert.EqualValues(t, 2, held.Load(), "it is another saga")
		stop()
	})
}
