package durable_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
)

// An event that has happened, or that a saga waits for, takes no room from those to come.
func TestEventsThatAreAskedForTakeNoRoom(t *testing.T) {
	for name, early := range map[string]bool{"early": true, "asked for": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				const most = 5
				m := r.manager(func(c *durable.Config) { c.MaxSagas, c.Limit = most, most }, s.tool(paid))
				r.work(m)
				if early {
					s.early = func(handle string) { assert.NoError(t, deliver(m, handle, `{"amount":1}`)) }
				}
				for n := range 4 * most {
					id := r.start(m, call(m, "buy", "")).ID
					time.Sleep(time.Minute)
					if !early {
						require.NoError(t, deliver(m, s.given()[n], `{"amount":1}`))
					}
					assert.Contains(t, text(t, r.until(m, id, tasks.Completed)), "paid 1", n)
				}
				handle := s.given()[0]
				require.NoError(t, deliver(m, handle, `{"amount":1}`), "the first is still remembered")
				require.ErrorIs(t, deliver(m, handle, `{"amount":2}`), durable.ErrEventOther)
				for n := range most {
					require.NoError(t, durable.SetDocument(t.Context(), m, "p", m.DocumentName("other", fmt.Sprint(n)), time.Now().Add(time.Hour), n))
				}
			})
		})
	}
}
