package server_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// After an effect that is final a cancel comes too late. It says so and leaves the saga as it was, in
// every dialect whose clients carry a token, with a ledger and without: the client can bring it to its
// end.
func TestACancelThatIsTooLate(t *testing.T) {
	for dialect, say := range talks {
		for name, store := range map[string]ledger.Store{"with a ledger": inMemory(t), "without": nil} {
			t.Run(dialect+"/"+name, func(t *testing.T) {
				s := new(seats)
				hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: func(context.Context, saga.Performed[string, string]) error {
					return saga.Final(errors.New("it is paid"))
				}}
				r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.toolWith(hold)}, Ledger: store})
				_, body := say(r, "", nil)
				first := tokenOf(t, body)
				_, body = say(r, first, rowSeven)
				second := tokenOf(t, body)
				for range 2 {
					status, body := r.do(http.MethodPost, "/mcp", seatMessage("cancelSaga", second, nil), nil)
					assert.Equal(t, http.StatusOK, status)
					assert.Contains(t, body, "Not cancelled: it is too late.")
					assert.Contains(t, body, `"final":"hold"`)
					assert.Contains(t, body, `"isError":true`)
				}
				_, body = say(r, second, sevenSure)
				assert.Contains(t, body, "seat in 7")
				held, calls := s.now()
				assert.Equal(t, 1, held)
				assert.Equal(t, 1, calls)
			})
		}
	}
}

// A saga whose client comes back too late, after an effect that is final, says that it is late: it was not
// cancelled.
func TestALateResumeAfterWhatIsFinal(t *testing.T) {
	for name, store := range map[string]ledger.Store{"with a ledger": inMemory(t), "without": nil} {
		t.Run(name, func(t *testing.T) {
			s := new(seats)
			hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: func(context.Context, saga.Performed[string, string]) error {
				return saga.Final(errors.New("it is paid"))
			}}
			var later atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.toolWith(hold)}, Ledger: store, Now: now})
			say := talks["saga"]
			_, body := say(r, "", nil)
			_, body = say(r, tokenOf(t, body), rowSeven)
			later.Store(int64(2 * time.Hour))
			_, body = say(r, tokenOf(t, body), sevenSure)
			assert.Contains(t, body, "too late and has ended")
			assert.NotContains(t, body, "Not cancelled")
			assert.Contains(t, body, `"final":"hold"`)
		})
	}
}
