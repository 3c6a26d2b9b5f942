// Package ledger is a server's memory: records that are compared and swapped, which means
// that a record is replaced only if nobody else has replaced it since it was read.
//
// A server needs none of it to serve sagas. With a ledger it can promise what no stateless
// server can: that a turn is taken once, that the end of a saga is final, and that what a
// saga did is undone when its client never comes back. Give a [Store] to server.Options:
//
//	store, err := sqlite.Open(ctx, "ledger.db") // package ledger/sqlite; or ledger/postgres, or NewMemory
//	s, err := server.New(server.Options{Ledger: store, Keys: keys, Tools: tools})
//
// What is stored is sealed with the server's keys, and its names are hashes, so who reads
// the database learns neither states nor answers nor whose they are. Servers with other
// keys, audiences or tools can share a store and do not see one another's records.
//
// A store knows nothing of sagas. To write one of your own, implement [Store] and have
// package ledgertest check it.
package ledger

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Limits of what a store keeps. It refuses more with [ErrTooLarge]; see [Record.Check].
const (
	// MaxName is the longest Key, Queue and Owner, in bytes. They are visible ASCII
	// (0x21 to 0x7e), and are told apart and ordered by their bytes.
	MaxName = 64
	// MaxBody is the largest Body of a record or an item, in bytes.
	MaxBody = 8 << 20
)

// Errors of a [Store]. They are matched with [errors.Is]. When its context has ended, a
// call fails with ctx.Err() and nothing was changed, unless the error is [ErrUnknown] as
// well. Any other error means that the store could not be reached or failed: nothing was
// changed, and the call may be repeated.
var (
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("ledger: no such record")
	// ErrConflict: the record is not at the revision that was given.
	ErrConflict = errors.New("ledger: the record has changed")
	// ErrUnknown: the connection was lost before the store said whether the change was
	// made. It may be made even later. Load the record and compare its Body, which is
	// different each time that something is sealed.
	ErrUnknown = errors.New("ledger: it is not known whether the record was changed")
	// ErrTooLarge: a name or a body exceeds the limits of this package.
	ErrTooLarge = errors.New("ledger: the record is too large")
	// ErrInvalid: no store keeps such a record, or the arguments make no sense. The call
	// fails each time that it is repeated.
	ErrInvalid = errors.New("ledger: invalid use")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("ledger: the store is closed")
)

// Record is what a store keeps under a key.
//
// Times are kept in microseconds: what is finer is cut off, and their location is lost.
// They are compared with the store's own clock: that of the database if there is one, so
// that the clocks of the servers need not agree. A time has come when it is not after that
// clock.
type Record struct {
	// Key is the record's name. It is not empty.
	Key string
	// Rev is the record's revision: 0 if it does not exist yet, and one more with each
	// change. A record that was forgotten and is written again begins with 1 again.
	Rev uint64
	// Queue is who takes the record when its time has come: see [Store.Take]. Empty: nobody.
	Queue string
	// Owner is on whose account the record is; see [Store.Count]. May be empty.
	Owner string
	// Body is what the record says: any bytes, or none.
	Body []byte
	// Wake is when somebody must look at the record again: the end of a lease, a
	// deadline, a sleep. Zero: never.
	Wake time.Time
	// Keep is until when the record is kept. After that it may be forgotten at any time,
	// and its items with it; until somebody calls [Store.Forget] it is there like any
	// other. Zero: for ever.
	Keep time.Time
}

// Item is one of any number of things that hang on a record: an event, a part of a result.
// Items are never changed, and forgotten together with their record.
type Item struct {
	// N is the item's number in its record, from 1 to math.MaxInt64, chosen by whoever
	// writes it. Numbers may have gaps, and come in any order.
	N uint64
	// Body is what the item says.
	Body []byte
}

// Take says what [Store.Take] is to take.
type Take struct {
	// Queues are those to take from. A store waits on none until ctx ends.
	Queues []string
	// Limit is how many records to take at most, at least 1.
	Limit int
	// Lease is how long they are the taker's, at least a microsecond: each record's Wake is
	// set so much later than now.
	Lease time.Duration
}

// Store keeps records. Its methods are safe for concurrent use, by any number of processes
// where the store is shared. What a method has acknowledged is durable: it survives the end
// of the process and the loss of power (except in a store in memory).
//
// Under a name that no record can have nothing is found. A method that is given a limit
// below 1 returns nothing; only [Store.Take] refuses it. What a method returns is the
// caller's.
type Store interface {
	// Load returns the newest state of a record, or [ErrNotFound].
	Load(ctx context.Context, key string) (*Record, error)
	// Swap writes r and appends the items to it, all or nothing. It fails with
	// [ErrConflict] unless the record is at revision r.Rev; 0 means that it must not
	// exist. An item whose number the record has already, or that is given twice, is a
	// conflict as well. On success r.Rev is the new revision; nothing else of r is changed,
	// and nothing at all on failure. It does not keep r or what is in it. What
	// [Record.Check] finds wrong it refuses.
	Swap(ctx context.Context, r *Record, items ...Item) error
	// Items returns the items of a record whose number is greater than after, in order, at
	// most limit of them. If there is no such record it returns none.
	Items(ctx context.Context, key string, after uint64, limit int) ([]Item, error)
	// Watch yields the record each time that it is found at a revision greater than after,
	// beginning with the present one. It may skip revisions, but never ends with one that
	// is not the newest. It waits, without end, until ctx ends or its caller has seen
	// enough; a record that does not exist may be made meanwhile. It ends with an error if the
	// store fails or ctx ends: that comes last, with no record. It may be ranged over
	// again, and begins anew. Changes by other processes are seen within 50 ms where
	// the store can tell of them, and within a second otherwise.
	Watch(ctx context.Context, key string, after uint64) iter.Seq2[*Record, error]
	// Take waits until the time of records in one of the queues has come, by the store's
	// clock, and takes them: their revision becomes one more and their Wake is moved by the
	// lease, in one step, so that nobody else takes them meanwhile, and whoever had them before
	// cannot write them any more. Those that have waited longest come first. It returns no
	// records only with an error, as when ctx ends. What other processes write meanwhile
	// is noticed as by Watch. If it fails, records may have been taken all the same: their
	// time comes again when the lease is over.
	Take(ctx context.Context, t Take) ([]*Record, error)
	// List returns the records in one of the queues that have a Wake, by key, whose key is
	// greater than after, at most limit of them.
	List(ctx context.Context, queues []string, after string, limit int) ([]*Record, error)
	// Owned returns the records of the owners, by key, whose key is greater than after, at
	// most limit of them. An empty name is nobody's.
	Owned(ctx context.Context, owners []string, after string, limit int) ([]*Record, error)
	// Count returns how many records an owner has, but not more than most. An empty name
	// is nobody's: it has none.
	Count(ctx context.Context, owner string, most int) (int, error)
	// Forget removes records whose Keep is over, and their items, at most limit records at
	// once, and returns how many it removed.
	Forget(ctx context.Context, limit int) (int, error)
	// Now returns the time by the store's clock. It is also the way to find out whether
	// the store works.
	Now(ctx context.Context) (time.Time, error)
	// Close ends all that waits, with [ErrClosed], and gives up what the store holds. From
	// then on every method fails with ErrClosed; closing again does nothing.
	Close() error
}
