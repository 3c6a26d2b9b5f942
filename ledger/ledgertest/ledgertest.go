// Package ledgertest checks that a [ledger.Store] does what its documentation says.
//
// A test of a store of your own:
//
//	func TestStore(t *testing.T) {
//		ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
//			path := filepath.Join(t.TempDir(), "ledger.db")
//			return ledgertest.Harness{Open: func() ledger.Store {
//				s, err := mystore.Open(t.Context(), path)
//				require.NoError(t, err)
//				return s
//			}}
//		})
//	}
//
// The suite does what servers do to a store, many at once, and what may happen to it: lost
// connections, writes of which nobody knows whether they were made, clocks that differ. A
// store that passes keeps the promises of a ledger. [Harness] says what the suite needs for
// each part; what is not there is skipped.
package ledgertest

import (
	"testing"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Harness is how the suite gets at one set of data, which is empty at first. Only Open is
// required; what else there is makes the suite check more.
type Harness struct {
	// Open returns a handle on the data, or fails the test. Each is another one, as another
	// process would have it. The suite closes them.
	Open func() ledger.Store
	// Single says that there is one handle only, and that the data end with it. Open is
	// called once.
	Single bool
	// Polls says that the store has no way to tell a process at once what another one
	// changed: it is allowed a second instead of 50 ms.
	Polls bool
	// Advance moves the store's clock forward. Without it the suite lets time pass.
	Advance func(time.Duration)
	// Disconnect breaks every connection between handles and data, in the midst of what
	// they are doing. New ones can be made at once.
	Disconnect func()
	// OpenSkewed is Open for a process whose own clock is ahead of the store's by so much,
	// which may be less than nothing. A store that goes by its processes' clocks has none.
	OpenSkewed func(skew time.Duration) ledger.Store
}

// late is after how long something that is to happen is taken not to happen at all, on a
// machine that is busy with other things.
const late = 30 * time.Second

// check is one part of the contract. It ends t if what it is about is not so.
type check struct {
	name string
	run  func(r *rig)
}

// checks is the suite.
func checks() (all []check) {
	for _, part := range [][]check{
		recordChecks, limitChecks, itemChecks, ownershipChecks, forgetChecks, watchChecks, takeChecks, listChecks,
		endChecks, modelChecks, concurrencyChecks, connectionChecks,
	} {
		all = append(all, part...)
	}
	return all
}

// Run checks a store, in parallel subtests. Start is called once for each of them, with the
// subtest, and arranges for new data. That nothing is left running the suite cannot see:
// have go.uber.org/goleak verify the test's package.
func Run(t *testing.T, start func(t testing.TB) Harness) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newRig(t, start(t), late))
		})
	}
}
