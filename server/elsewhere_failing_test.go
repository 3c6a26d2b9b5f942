package server_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// noPages has pages to which no link can be made.
type noPages struct{}

func (noPages) Link(context.Context, string, string, time.Time) (string, error) {
	return "", errors.New("the ledger is away")
}

// Where no link to a page can be made, the other routes are said. If there are none, the call fails, and leaves nothing
// that no one has the name of.
func TestLinksThatFail(t *testing.T) {
	for _, noRelay := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s, store := new(seats), ledger.NewMemory(ledger.MemoryOptions{})
			t.Cleanup(func() { _ = store.Close() })
			r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{s.holdsFirst()}, Questions: server.Questions{NoRelay: noRelay}})
			server.SetPages(r.srv, noPages{})
			m := r.send(callTool("seat", nil))
			if !noRelay {
				waits := waitsOf(t, m.Result)
				assert.NotContains(t, waits.Message, "link")
				assert.True(t, waits.Questions[0].Relay)
				return
			}
			assert.NotNil(t, m.Error, m.raw)
			time.Sleep(time.Second) //sagavet:ignore in virtual time
			synctest.Wait()
			held, calls := s.now()
			assert.Equal(t, []int{0, 1}, []int{held, calls})
		})
	}
}
