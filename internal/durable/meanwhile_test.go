package durable_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A cancellation that comes just before a saga is put to rest does not rest with it.
func TestACancellationWhileASagaIsPutBack(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool := step(func(*turn) error { return nil })
		way := newNarrow(r.store)
		runner := r.runner(tool)
		runner.Hook = func(context.Context, *turns.Turn, func(context.Context) error) error {
			return &turns.RefusedError{Code: -1, Message: "later", Later: true}
		}
		m, err := durable.New(durable.Config{Turns: runner, Store: way})
		require.NoError(t, err)
		other := r.manager(nil, tool)
		r.work(m)
		task := r.start(m, call(m, "steps", ""))
		time.Sleep(30 * time.Minute) // the pauses are long by now
		var at atomic.Pointer[time.Time]
		way.next(func() {
			now := time.Now()
			at.Store(&now)
			_, err := other.Cancel(t.Context(), "p", task.ID)
			assert.NoError(t, err)
		})
		for range 2000 {
			if time.Sleep(time.Second); at.Load() != nil {
				break
			}
		}
		require.NotNil(t, at.Load(), "nothing was written")
		r.until(m, task.ID, tasks.Cancelled)
		assert.Less(t, time.Since(*at.Load()), 10*time.Second)
	})
}

// A tool that says much while nothing can be written does not have more to write than one write takes.
func TestAToolThatSaysMuchWhileNothingCanBeWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var runs atomic.Int32
		things := &counter{holds: map[string]bool{}}
		a := things.effect("a")
		tool := step(func(t *turn) error {
			runs.Add(1)
			if _, err := saga.Do(t, a, "x"); err != nil {
				return err
			}
			for range 6 * 60 * 20 {
				time.Sleep(50 * time.Millisecond)
				t.Log(slog.LevelInfo, "line")
			}
			return nil
		}, a)
		m, way := r.narrowed(tool)
		way.Around = func(ctx context.Context, c storetest.Call, next func() error) error {
			if c.Method == "Renew" {
				return next()
			}
			return way.around(ctx, c, next)
		}
		r.work(m)
		task := r.start(m, call(m, "steps", ""))
		time.Sleep(time.Second)
		way.hangs.Store(true)
		time.Sleep(4 * time.Minute)
		way.hangs.Store(false)
		assert.Equal(t, tasks.Completed, r.until(m, task.ID, tasks.Completed).Status)
		assert.EqualValues(t, 1, runs.Load())
	})
}

// That whoever watches a task has seen enough, just as its row is read again, is no news for operators.
func TestWhoHasSeenEnoughIsNoNews(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var log bytes.Buffer
		way := newNarrow(r.store)
		runner := r.runner(greeter())
		runner.Log = slog.New(slog.NewTextHandler(&log, nil))
		var slow atomic.Bool // what is read takes as long as it is waited for
		way.Around = func(ctx context.Context, c storetest.Call, next func() error) error {
			if c.Method == "Load" && slow.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return next()
		}
		m, err := durable.New(durable.Config{Turns: runner, Store: way})
		require.NoError(t, err)
		r.work(m)
		task := r.start(m, call(m, "greet", ""))
		time.Sleep(time.Second) // it waits for its client
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		seen := 0
		for _, err := range m.Watch(ctx, "p", task.ID, 0) {
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				break
			}
			seen++
			slow.Store(true)
		}
		assert.Equal(t, 1, seen)
		assert.NotContains(t, log.String(), "level=WARN")
	})
}
