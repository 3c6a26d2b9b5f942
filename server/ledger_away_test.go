package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// While the ledger is away, what needs it is to be sent again; all else is served, and all
// goes on when it is back.
func TestLedgerIsAway(t *testing.T) {
	for dialect, say := range talks {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				s := new(seats)
				store := newTroubled(ledger.NewMemory(ledger.MemoryOptions{}))
				r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool(), complextool.Tool}, Ledger: store})
				_, body := say(r, "", nil)
				first := tokenOf(t, body)

				store.setDown(true)
				status, body := say(r, first, rowSeven)
				require.Equal(t, http.StatusServiceUnavailable, status, body)
				assert.Equal(t, -31503, parse(t, body).Error.Code)
				assert.Contains(t, body, `"data":{"retryable":true}`)
				assert.NotContains(t, body, errDown.Error(), "that is for the log")
				assert.Contains(t, r.log.take(), errDown.Error())
				held, calls := s.now()
				assert.Zero(t, held+calls, "nothing has happened")
				req := r.httpRequest(t.Context(), modernRequest("tools/cancelSaga", object{"sagaToken": first}))
				resp, err := r.client().Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
				assert.Equal(t, "1", resp.Header.Get("Retry-After"))
				for i, pair := range transcript(t)[:2] {
					message := pair[0]
					if i == 1 {
						message = strings.Replace(message, "TOKEN1", r.firstToken(), 1)
					}
					assert.Nil(t, parse(t, r.post(message)).Error, "this tool needs no ledger")
				}

				store.setDown(false)
				status, body = say(r, first, rowSeven)
				assert.Equal(t, http.StatusOK, status, body)
				_, body = say(r, tokenOf(t, body), sevenSure)
				assert.Contains(t, body, "seat in 7")
				_, calls = s.now()
				assert.Equal(t, 1, calls)
			})
		})
	}
}
