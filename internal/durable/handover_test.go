package durable_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

func TestWhatRunsIsHandedOver(t *testing.T) {
	for _, checkpoint := range []bool{true, false} {
		t.Run(fmt.Sprint("checkpoint ", checkpoint), func(t *testing.T) {
			var runs atomic.Int32
			tool := saga.Machine[none, counted]{
				Info: saga.Info{Name: "long", Tasks: optional},
				Start: func(t *saga.Turn[none, counted]) (saga.Next, error) {
					if t.State.N++; t.State.N > 20 {
						return t.Textf("%d", runs.Load())
					}
					d := time.Second
					if !checkpoint {
						d = time.Hour
					}
					runs.Add(1)
					select {
					case <-t.Done():
						return nil, context.Cause(t)
					case <-time.After(d):
					}
					return t.Goto(engine.StartStep)
				},
			}
			inBubble(t, func(t *testing.T, r *rig) {
				a, b := r.manager(nil, tool), r.manager(nil, tool)
				stop := r.work(a)
				task := r.start(a, call(a, "long", ""))
				time.Sleep(5500 * time.Millisecond)
				r.work(b)
				began := time.Now()
				stop()
				time.Sleep(100 * time.Millisecond)
				took := time.Since(began)
				if checkpoint {
					assert.EqualValues(t, 7, runs.Load(), "the other goes on at once") // six here, one there
					assert.Less(t, took, 1500*time.Millisecond)
					assert.Contains(t, text(t, r.until(b, task.ID, tasks.Completed)), "20", "no step ran twice")
				} else {
					assert.EqualValues(t, 2, runs.Load(), "the other goes on at once")
					assert.InDelta(t, 5*time.Second, took, float64(200*time.Millisecond))
				}
			})
		})
	}
}

func TestAnotherTakesOverAfterTheLease(t *testing.T) {
	var runs atomic.Int32
	tool := single("long", func(t *turn) (saga.Next, error) {
		if runs.Add(1) == 1 {
			time.Sleep(time.Hour)
		}
		return t.Textf("done")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		l := newLink(r.store, newRand(), -1, 0)
		a, err := durable.New(durable.Config{Turns: r.runner(tool), Store: l})
		require.NoError(t, err)
		r.work(a)
		b := r.manager(nil, tool)
		r.work(b)
		task := r.start(a, call(a, "long", ""))
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, runs.Load(), "the lease is renewed")
		began := time.Now()
		l.cut()
		r.until(b, task.ID, tasks.Completed)
		assert.Less(t, time.Since(began), 11*time.Second)
		time.Sleep(2 * time.Hour) // the other ends as well, and writes nothing
		now, err := b.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Completed, now.Status)
	})
}

func TestATaskThatBreaksWorkersIsGivenUp(t *testing.T) {
	var runs atomic.Int32
	tool := single("bad", func(t *turn) (saga.Next, error) {
		runs.Add(1)
		time.Sleep(time.Hour) // so long that its worker is given up
		return t.Textf("done")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		var ended *tasks.Task
		var id string
		for n := 0; ended == nil; n++ {
			require.Less(t, n, 10)
			l := newLink(r.store, newRand(), -1, 0)
			m, err := durable.New(durable.Config{Turns: r.runner(tool), Store: l, Attempts: 3})
			require.NoError(t, err)
			r.work(m)
			if n == 0 {
				id = r.start(m, call(m, "bad", "")).ID
			}
			time.Sleep(15 * time.Second)
			task, err := m.Get(t.Context(), "p", id)
			require.NoError(t, err)
			if task.Status.Ended() {
				ended = task
			}
			l.cut()
		}
		assert.Equal(t, tasks.Failed, ended.Status)
		require.ErrorContains(t, ended.Err, "given up")
		assert.EqualValues(t, 3, runs.Load())
	})
}
