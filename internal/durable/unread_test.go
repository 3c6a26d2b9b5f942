package durable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A worker that lacks the key of a task does not use up the attempts of those who have it.
func TestATaskWaitsForAWorkerWithItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool := single("work", func(t *turn) (saga.Next, error) { return t.Textf("done") })
		before := r.keys
		added, id, err := before.Add(codec.XAES256GCM)
		require.NoError(t, err)
		r.keys, err = added.Promote(id)
		require.NoError(t, err)
		server := r.manager(nil, tool)
		task, err := server.Start(t.Context(), call(server, "work", ""))
		require.NoError(t, err)

		stale := &rig{t: t, store: r.store, keys: before}
		stop := stale.work(stale.manager(nil, tool))
		time.Sleep(20 * time.Minute)
		stop()
		r.work(server)
		r.until(server, task.ID, tasks.Completed)
	})
}
