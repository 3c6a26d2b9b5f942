package durable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// Workers remove what nobody needs any more.
func TestWorkersForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := tripFleet(t)
		a := s.replica()
		first := a.begin(t, `{"to":"Rome","early":true}`)
		_, err := a.cancel(first.Token)
		require.NoError(t, err)
		time.Sleep(100 * 24 * time.Hour)
		require.Len(t, s.all(), 1)
		stop := a.work(t)
		time.Sleep(10 * time.Minute)
		stop()
		assert.Empty(t, s.all())
	})
}

// However long the ledger cannot be used, a worker is back within half a minute after it can.
func TestAWorkerAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		a.begin(t, `{"to":"Rome","early":true}`)
		require.Len(t, w.things(), 1)
		a.line.on(func(_ int, op string) error {
			if op == "Take" {
				return errRefused
			}
			return nil
		})
		a.work(t)
		time.Sleep(tokens.DefaultTTL + time.Hour)
		assert.Len(t, w.things(), 1)
		a.line.on(nil)
		time.Sleep(30*time.Second + time.Second)
		assert.Empty(t, w.things())
		assert.Contains(t, s.logged(), "the ledger can be used again")
	})
}
