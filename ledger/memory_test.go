package ledger_test

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemory(t *testing.T) {
	ledgertest.Run(t, func(testing.TB) ledgertest.Harness {
		return ledgertest.Harness{Open: func() ledger.Store { return ledger.NewMemory(ledger.MemoryOptions{}) }, Single: true}
	})
}

// clock is one that moves by hand only.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC).Add(time.Duration(c.offset.Load()))
}

func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

func TestMemoryWithAClock(t *testing.T) {
	ledgertest.Run(t, func(testing.TB) ledgertest.Harness {
		c := &clock{}
		return ledgertest.Harness{
			Open:    func() ledger.Store { return ledger.NewMemory(ledger.MemoryOptions{Now: c.now}) },
			Single:  true,
			Advance: c.advance,
		}
	})
}
