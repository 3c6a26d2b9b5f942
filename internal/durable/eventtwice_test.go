package durable_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
)

// Of two values that are delivered at the same moment only one is accepted, also if its saga takes it between what the other
// reads.
func TestAnotherValueAtTheSameMoment(t *testing.T) {
	for value, want := range map[string]error{`{"amount":2}`: durable.ErrEventOther, `{"amount":1}`: nil} {
		inBubble(t, func(t *testing.T, r *rig) {
			s := newShop()
			m := r.manager(nil, s.tool(paid))
			r.work(m)
			id := r.start(m, call(m, "buy", "")).ID
			time.Sleep(time.Minute)
			handle := s.given()[0]
			at, err := m.AtHandle(t.Context(), handle)
			require.NoError(t, err)

			first := true
			slow := &intercept.Store{Store: r.store, Around: func(_ context.Context, c intercept.Call, next func() error) error {
				if c.ID == at.Row && first { // it has read that nothing was delivered
					first = false
					assert.NoError(t, deliver(m, handle, `{"amount":1}`))
					r.until(m, id, tasks.Completed)
				}
				return next()
			}}
			other, err := durable.New(durable.Config{Turns: r.runner(s.tool(paid)), Store: slow})
			require.NoError(t, err)
			require.ErrorIs(t, deliver(other, handle, value), want)
			require.False(t, first)
		})
	}
}
