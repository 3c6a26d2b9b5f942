package tasks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
)

// tardyContext is that of a caller on a busy machine: who begins to wait for its end does so late.
type tardyContext struct{ context.Context }

func (c tardyContext) Done() <-chan struct{} {
	time.Sleep(time.Microsecond)
	return c.Context.Done()
}

// A caller may leave, and the step that notices may end, both before anything waits for either: the
// call was left then, which is no fault of the server.
func TestACallerWhoLeavesAsTheFirstStepEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		gone := errors.New("the client has gone")
		var leave context.CancelCauseFunc
		m := r.manager(nil, single("leaves", func(t *turn) (saga.Next, error) {
			leave(gone)
			return t.Textf("done")
		}))
		r.work(m)
		synctest.Wait()
		for range 50 { // which of the two is noticed first is left to chance
			var ctx context.Context
			ctx, leave = context.WithCancelCause(t.Context())
			_, err := m.Start(tardyContext{ctx}, call(m, "leaves", ""))
			leave(nil)
			require.ErrorIs(t, err, gone)
		}
		time.Sleep(time.Second) // what saw to those who had left is over
	})
}
