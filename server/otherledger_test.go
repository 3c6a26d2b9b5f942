package server_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// What a saga has done is looked after by one ledger. A server with another one, or with none, leaves
// the saga alone: the first would not learn of its end, and undo what the user was told is kept.
func TestOtherLedgersRefuse(t *testing.T) {
	for dialect, say := range talks {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				s := new(seats)
				o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}, TokenTTL: time.Hour, Now: time.Now}
				rigWith := func(store ledger.Store) *rig {
					o.Ledger = store
					return newRig(t, o)
				}
				memory := func() ledger.Store {
					store := ledger.NewMemory(ledger.MemoryOptions{})
					t.Cleanup(func() { _ = store.Close() })
					return store
				}
				here := rigWith(memory())
				_, body := say(here, "", nil)
				first := tokenOf(t, body)
				_, body = say(here, first, rowSeven)
				second := tokenOf(t, body)
				others := map[string]*rig{"another ledger": rigWith(memory()), "no ledger": rigWith(nil)}
				for name, other := range others {
					status, body := say(other, second, sevenSure)
					assert.Equal(t, http.StatusServiceUnavailable, status, name)
					assert.Contains(t, body, `"code":-31503,"message":"another ledger than this server's looks after what was done: send the same request again, to a server that has that one"`, name)
					assert.Contains(t, other.log.take(), "servers with one keyset and audience must share one", name)
					q := modernRequest("tools/cancelSaga", object{"sagaToken": second})
					assert.Equal(t, http.StatusServiceUnavailable, other.send(q).status, name)
				}
				time.Sleep(time.Minute)
				held, _ := s.now()
				assert.Equal(t, 1, held)
				_, body = say(here, second, sevenSure)
				assert.Contains(t, body, "seat in 7")
				time.Sleep(24 * time.Hour)
				held, _ = s.now()
				assert.Equal(t, 1, held, "what the user was told is kept")

				_, body = say(here, "", nil)
				_, body = say(here, tokenOf(t, body), rowSeven)
				second = tokenOf(t, body)
				time.Sleep(2 * time.Hour) // too late: it is undone once, by who looks after it
				status, _ := say(others["another ledger"], second, sevenSure)
				assert.Equal(t, http.StatusServiceUnavailable, status)
				held, _ = s.now()
				assert.Equal(t, 1, held)
			})
		})
	}
}

// A token from before there was a ledger opens with any, and a ledger is the same one to the next server.
func TestLedgerStaysItself(t *testing.T) {
	s := new(seats)
	o := server.Options{Keys: newKeys(t), Tools: []saga.Definition{s.tool()}}
	_, body := inSaga(newRig(t, o), "", nil)
	_, body = inSaga(newRig(t, o), tokenOf(t, body), rowSeven)
	before := tokenOf(t, body)

	o.Ledger = inMemory(t)
	r := newRig(t, o)
	_, body = inSaga(r, before, sevenSure)
	assert.Contains(t, body, "seat in 7", "of a server without a ledger")
	_, body = inSaga(r, "", nil)
	_, body = inSaga(r, tokenOf(t, body), rowEight)
	second := tokenOf(t, body)
	r.srv.Close()

	status, body := inSaga(newRig(t, o), second, object{"row": rowEight["row"], "sure": sevenSure["sure"]})
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "seat in 8")
}

// asked counts how often a ledger is asked which one it is.
type asked struct {
	ledger.Store
	n atomic.Int64
}

func (l *asked) Identity(ctx context.Context) (store.ID, error) {
	l.n.Add(1)
	return l.Store.Identity(ctx)
}

// To know the ledger costs a server one read, ever.
func TestLedgerIsKnownForGood(t *testing.T) {
	store := &asked{Store: ledger.NewMemory(ledger.MemoryOptions{})}
	t.Cleanup(func() { _ = store.Close() })
	r := newRig(t, server.Options{Tools: []saga.Definition{new(seats).tool()}, Ledger: store})
	for range 10 {
		_, body := inSaga(r, "", nil)
		_, body = inSaga(r, tokenOf(t, body), rowSeven)
		_, _ = inSaga(r, tokenOf(t, body), sevenSure)
	}
	assert.EqualValues(t, 1, store.n.Load())
}
