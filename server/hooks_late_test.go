package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A hook that waits for what does not answer has the time of a turn. It has refused nothing then: a task is
// tried again, and a client is told that it may try again.
func TestAHookHasTheTimeOfATurn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var stuck atomic.Int32
		wait := func(ctx context.Context, _ *server.TurnInfo, next next) error {
			if stuck.Add(-1) >= 0 {
				<-ctx.Done()
				return &server.Error{Message: "forbidden, as no policy is known"}
			}
			return next(ctx)
		}
		tools := taskTools()
		r := newTaskRig(t, func(o *server.Options) {
			o.Tools, o.TurnTimeout, o.Hooks = append([]saga.Definition{final(false, false)}, tools...), 3*time.Second, []server.Hooks{{Turn: wait}}
		})
		stuck.Store(2)
		task := r.begin(callTool("pay", nil))
		time.Sleep(time.Minute)
		assert.Equal(t, "completed", r.task(task.TaskID).Status)
		log := r.log.take()
		assert.Contains(t, log, `"level":"WARN","msg":"a hook takes longer than a turn may`)
		assert.Contains(t, log, `"tool":"pay"`)

		stuck.Store(1)
		m := r.send(callTool("pay", nil))
		assert.Equal(t, 503, m.status, m.raw)
		assert.Contains(t, m.raw, "nothing was done")
		assert.NotContains(t, m.raw, "forbidden")
	})
}

// A turn has what its hook has left of its time.
func TestATurnHasWhatItsHookHasLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newTaskRig(t, func(o *server.Options) {
			o.Tools, o.TurnTimeout, o.Ledger = []saga.Definition{final(true, false)}, time.Minute, nil
			o.Hooks = []server.Hooks{{Turn: func(ctx context.Context, _ *server.TurnInfo, next next) error {
				time.Sleep(40 * time.Second)
				return next(ctx)
			}}}
		})
		began := time.Now()
		r.send(callTool("pay", nil))
		assert.Equal(t, time.Minute, time.Since(began))
	})
}
