package durable_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// payer is a tool that pays, which is final, and counts how often. before is called just before.
func payer(paid *int, before func()) saga.Definition {
	pay := &saga.Effect[none, none]{Name: "pay", Irreversible: true, Do: func(context.Context, saga.Key, none) (none, error) {
		*paid++
		return none{}, nil
	}}
	return single("pay", func(t *turn) (saga.Next, error) {
		before()
		if _, err := saga.Do(t, pay, none{}); err != nil {
			return nil, err
		}
		return t.Textf("paid")
	}, pay)
}

// queued begins a task that waits for a slot until free is called. Another server has begun it.
func (r *rig) queued(tool saga.Definition, name string, patience time.Duration) (other *durable.Core, id string, free func()) {
	done := make(chan none)
	long := single("long", func(t *turn) (saga.Next, error) { <-done; return t.Textf("done") })
	m := r.manager(func(c *durable.Config) { c.Workers, c.PerPrincipal = 2, 1 }, long, tool)
	other = r.manager(func(c *durable.Config) { c.Workers = -1 }, long, tool)
	r.work(m)
	r.start(m, call(m, "long", ""))
	time.Sleep(time.Second)
	s := call(other, name, "")
	s.Patience = patience
	id = r.start(other, s).ID
	time.Sleep(time.Second)
	return other, id, func() { close(done) }
}

// A task that is cancelled at another server while it waits for a slot begins nothing.
func TestCancelledWhileItWaitsForASlot(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		paid := 0
		other, id, free := r.queued(payer(&paid, func() {}), "pay", 0)
		_, err := other.Cancel(t.Context(), "p", id)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		free()
		r.until(other, id, tasks.Cancelled)
		assert.Zero(t, paid)
	})
}

// One whose client shows meanwhile that it is wanted is not over.
func TestWantedWhileItWaitsForASlot(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		other, id, free := r.queued(single("short", func(t *turn) (saga.Next, error) { return t.Textf("well") }), "short", 100*time.Second)
		for range 30 {
			time.Sleep(10 * time.Second)
			_, err := other.Renew(t.Context(), "p", id, 100*time.Second, nil)
			require.NoError(t, err)
		}
		free()
		r.until(other, id, tasks.Completed)
	})
}

// A cancellation that is found just before what is final keeps that from being begun.
func TestCancelledJustBeforeWhatIsFinal(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var other *durable.Core
		begun := make(chan string, 1)
		paid := 0
		tool := payer(&paid, func() {
			_, err := other.Cancel(t.Context(), "p", <-begun)
			assert.NoError(t, err)
		})
		other = r.manager(func(c *durable.Config) { c.Workers = -1 }, tool)
		m := r.manager(nil, tool)
		r.work(m)
		id := r.start(m, call(m, "pay", "")).ID
		begun <- id
		r.until(m, id, tasks.Cancelled)
		assert.Zero(t, paid)
		for w, err := range m.All(t.Context()) {
			require.NoError(t, err)
			for e, err := range m.History(t.Context(), w.ID) {
				require.NoError(t, err)
				assert.NotContains(t, e.Text, "irreversible")
			}
		}
	})
}

// A task whose client shows at another server that it is wanted is not over at one that does not hear of that.
func TestWantedWhereNothingIsHeard(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		long := single("long", func(t *turn) (saga.Next, error) {
			select {
			case <-t.Done():
				return nil, context.Cause(t)
			case <-time.After(40 * time.Second):
				return t.Textf("done")
			}
		})
		m, way := r.narrowed(long)
		way.noListen.Store(true)
		other := r.manager(func(c *durable.Config) { c.Workers = -1 }, long)
		r.work(m)
		s := call(m, "long", "")
		s.Patience = 8 * time.Second
		id := r.start(m, s).ID
		for range 10 {
			time.Sleep(5 * time.Second)
			_, err := other.Renew(t.Context(), "p", id, 8*time.Second, nil)
			require.NoError(t, err)
		}
		r.until(other, id, tasks.Completed)
	})
}
