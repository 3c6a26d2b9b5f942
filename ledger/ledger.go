// Package ledger is the memory of servers, which they need to promise what no server can that remembers
// nothing: that a turn is taken once, that the end of a saga is final, that what a saga did is undone
// when its client never comes back, and that tasks and calls go on when their server dies.
//
// A server needs none to serve sagas. To give it one:
//
//	store, err := sqlite.Open(ctx, "ledger.db") // package ledger/sqlite; or ledger/postgres, or NewMemory
//	if err != nil { … }
//	defer store.Close()
//	s, err := server.New(server.Options{Ledger: store, Keys: keys, Tools: tools})
//
// A store has a record for each saga that needs memory, and a log of what has happened to it. Which tool a saga is
// of, how far it is and when it is due are in the clear, and so is a hash of whose it is. All else is sealed
// with the server's keys and bound to its place, so who reads the database learns no state, argument or answer, and
// who copies a row gains nothing.
package ledger

import (
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Store keeps the records of servers. Its methods are for servers; what a program needs of it is Close, once
// the server has stopped.
type Store = store.Store

// ErrClosed is what servers fail with whose store was closed.
var ErrClosed = store.ErrClosed

// MemoryOptions is how a store in memory works. The zero value is for use.
type MemoryOptions struct {
	// Now is the store's clock; nil is [time.Now].
	Now func() time.Time
}

// NewMemory makes an empty store in this process's memory: for tests, and for servers whose sagas need not
// outlive them. It starts no goroutines.
func NewMemory(o MemoryOptions) Store { return store.NewMemory(o.Now) }
