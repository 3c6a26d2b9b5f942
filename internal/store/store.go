// Package store is the memory of servers that drive sagas: a [Record] for each saga that needs
// memory, and beside it the log of what has happened to it.
//
// Whatever happens to a saga is one write: it replaces the record and appends to the log, all or
// nothing, and only if nothing else has happened since the record was read. What waits for a
// saga reads its log. A [Store] is where records and logs are kept: in memory, in SQLite, in
// PostgreSQL. Package storetest checks that a store does what this package says.
//
// A store knows nothing of sagas. What it is asked by is in the clear; State, Summary and the bodies
// of items are bytes to it, which are sealed before they come here.
package store

import (
	"context"
	"encoding/hex"
	"errors"
	"time"
)

// ID names a record: 16 random bytes, or the first 16 of a hash where a client has chosen the name.
// The zero ID names nothing.
type ID [16]byte

// String is the ID in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Limits of what a store keeps. It refuses more with [ErrTooLarge].
const (
	// MaxName is the longest Audience, Tool and Kind, in bytes. Names are in UTF-8 and have no NUL: a store
	// refuses others with [ErrInvalid].
	MaxName = 255
	// MaxState is the largest State of a record and Body of an item, in bytes, and MaxSummary the
	// largest Summary.
	MaxState   = 8 << 20
	MaxSummary = 16 << 10
	// MaxItems is how many items are appended at once.
	MaxItems = 1000
)

// Errors of a [Store]. They are matched with [errors.Is]. When its context has ended, a call fails
// with the context's error, and nothing was changed unless the error is [ErrUnknown] as well. Any other
// error means that the store could not be reached or failed: nothing was changed, and the call
// may be repeated.
var (
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("ledger: no such record")
	// ErrConflict: the record is not as it was read, is held by another writer, or exists already.
	ErrConflict = errors.New("ledger: the record has changed")
	// ErrFull: the account has as many records as it may have.
	ErrFull = errors.New("ledger: the account is full")
	// ErrUnknown: the connection was lost before the store said whether the change was made. It may
	// be made even later.
	ErrUnknown = errors.New("ledger: it is not known whether the record was changed")
	// ErrTooLarge: a name or a body exceeds the limits of this package.
	ErrTooLarge = errors.New("ledger: the record is too large")
	// ErrInvalid: the arguments make no sense. The call fails each time that it is repeated.
	ErrInvalid = errors.New("ledger: invalid use")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("ledger: the store is closed")
)

// Mode says who drives a record, and what it counts among.
type Mode string

// The modes. Clients drive their sagas turn by turn, servers drive tasks, a session's open call lasts
// as long as its request. A session and the notices of an audience are records as well, whose logs
// are the messages that go to all who listen.
const (
	ModeClient  Mode = "client"
	ModeTask    Mode = "task"
	ModeCall    Mode = "call"
	ModeSession Mode = "session"
	ModeNotices Mode = "notices"
)

// Status says how far a record is.
type Status string

// The statuses. What is Ended or Outstanding takes no more signals, and does not count for its account.
const (
	// Working: a turn is under way, or due.
	Working Status = "working"
	// Waiting: for answers, or for the client's next turn.
	Waiting Status = "waiting"
	// Sleeping: until the record's Wake.
	Sleeping Status = "sleeping"
	// Undoing: effects are being undone, or will be tried again at the record's Wake.
	Undoing Status = "undoing"
	// Outstanding: it has ended, but effects could not be undone. That is tried again at the record's
	// Wake, or left to people.
	Outstanding Status = "outstanding"
	// Ended: nothing is left to do.
	Ended Status = "ended"
)

// Over reports whether the status is Ended or Outstanding.
func (s Status) Over() bool { return s == Ended || s == Outstanding }

// Record is what a store keeps of a saga.
//
// Times are kept in microseconds, by the store's clock: that of the database if there is one, so
// that the clocks of servers need not agree. A time has come when it is not after that clock.
type Record struct {
	// ID names the record among all, Audience the deployment that it belongs to.
	ID       ID
	Audience string
	// Owner is whose it is, a hash: see [Filter]. Account is on whose account it counts, a hash as
	// well: see [Change.Most]. Zero: no one's.
	Owner, Account ID
	// Tool and Revision are what can drive it, and Format is that of State: see [Take].
	Tool     string
	Revision uint32
	Format   uint16
	Mode     Mode
	Status   Status
	// Request is another name of the record, by which [Store.Find] finds it. Zero: it has none.
	Request ID
	// Wake is when it is due: see [Store.Take]. Keep is until when it is kept: after that it may be
	// forgotten at any time. Zero: never.
	Wake, Keep time.Time
	// Summary is what lists show of it, sealed; it is small. State is all else, sealed.
	Summary, State []byte

	// Fence counts how often the record was acquired. Its holder writes with the same Fence
	// until the lease is over and someone else has acquired it; all others write with one more.
	Fence uint64
	// Head is the number of the newest item of the log, from 1 on; 0 if there is no record yet.
	Head uint64
	// Floor is up to where the log's items that are not Lasting were removed.
	Floor uint64

	// What follows is the store's: it is read, and ignored when it is written, but for Tries.

	// Until is when the lease is over; zero if the record is not held.
	Until time.Time
	// Tries counts how often it was taken since it was last written. A write says by it whether its writer
	// has read the record before it was taken: see [Store.Write].
	Tries int
	// Created and Updated are when it was created and last written.
	Created, Updated time.Time
	// Unread are the items that were appended by [Store.Signal] since it was last written.
	Unread []Item
	// Now is the store's time when the record was read or written.
	Now time.Time
}

// Item is an entry of a record's log. It is never changed, and forgotten together with the record,
// if not before.
type Item struct {
	// N is its number. Numbers have no gaps but for what was removed: the items of a write are
	// given those that follow the record's Head, so who seals their bodies knows them.
	N uint64
	// Kind is what it says, for people who look at the database.
	Kind string
	// Lasting items stay as long as the record. Others are removed when the record's Floor is raised.
	Lasting bool
	// At is when it was written, by the store's clock.
	At time.Time
	// Body is what it says, sealed.
	Body []byte
}

// Change is what a write does besides replacing the record.
type Change struct {
	// Items are appended to the log. There is at least one: the number of the newest is the
	// record's version.
	Items []Item
	// Lease is for how long the record is the writer's from now on. Zero: it is given up.
	Lease time.Duration
	// Most is how many records that are not over there may be of the same Audience, Account and
	// Mode, the new one included. Writers that create records at the same moment may exceed it by as
	// many as they are. It counts when a record is created, or gets another Mode. Zero: any number.
	Most int
}

// Take says what [Store.Take] is to take.
type Take struct {
	Audience string
	// Tools are those whose records the taker can drive.
	Tools []Tool
	// Format is the newest that it can read.
	Format uint16
	// Limit is how many records to take at most, at least 1.
	Limit int
	// Lease is for how long they are the taker's.
	Lease time.Duration
}

// Tool is a tool that a server has, and the newest revision of it: it can drive the records of
// earlier ones as well.
type Tool struct {
	Name     string
	Revision uint32
}

// Held names a record that a writer holds.
type Held struct {
	ID    ID
	Fence uint64
	// Unread: it could not be read, so that the take is no try to go on with it.
	Unread bool
}

// Filter says which records [Store.List] lists: those of an owner in a mode, or those with any of some statuses,
// for both of which there is an index.
type Filter struct {
	Audience string
	// Mode. It may be empty if Owner is zero: any.
	Mode Mode
	// Owner, if it is not zero.
	Owner ID
	// Statuses, if Owner is zero.
	Statuses []Status
}

// Cursor is where a page of a list begins: behind the record that was created then. The zero Cursor
// is the beginning.
type Cursor struct {
	Created time.Time
	ID      ID
}

// Log is a piece of a record's log.
type Log struct {
	Items []Item
	// Head and Floor are the record's. The piece reaches to Head if it has fewer items than were
	// asked for. Items up to Floor that are not Lasting are gone.
	Head, Floor uint64
}

// Store keeps records. Its methods are safe for concurrent use, by any number of processes where the
// store is shared. What a method has acknowledged is durable: it survives the end of the process and
// the loss of power (except in a store in memory). What a method returns is the caller's, and what it
// is given it does not keep.
type Store interface {
	// Load returns a record with what is unread of its log, as of one moment, or [ErrNotFound].
	Load(ctx context.Context, id ID) (*Record, error)
	// Find is Load by the record's Request.
	Find(ctx context.Context, request ID) (*Record, error)

	// Write creates or replaces a record, and appends to its log.
	//
	// If r.Head is 0 it is created; if there is a record of its ID or its Request that is [ErrConflict], and if its account is
	// full [ErrFull]. Otherwise the record must be at r.Head, not have been taken since it was read, as r.Tries shows, and
	// r.Fence be either the record's, or one more if its lease is over or it was given up; else it is [ErrConflict]. ID,
	// Audience, Owner, Account and Created do not change. Where r.Floor is higher than before, items up to it that are not
	// Lasting are removed, but none that is appended.
	//
	// On success r.Head is the number of the last item, r.Until the end of the lease, r.Tries 0, r.Unread empty, and r.Updated
	// and r.Now the present. On failure nothing is changed.
	Write(ctx context.Context, r *Record, c Change) error
	// Signal appends to the log of a record that is at head, held or not, and makes it due now. It
	// fails with [ErrConflict] if the record is elsewhere, and with [ErrNotFound] if it is over.
	Signal(ctx context.Context, id ID, head uint64, items ...Item) error

	// Take acquires records that are due and not held, those first that have waited longest: the Fence of
	// each is one more, and its lease begins. next is when there may be more: at once if there were
	// more than the limit, and zero if nothing is known. It does not wait.
	Take(ctx context.Context, t Take) (taken []*Record, next time.Time, err error)
	// Renew has leases end so long from now, and returns those whose holder has been replaced, or
	// whose record is gone. The Tries of what is unread are one less.
	Renew(ctx context.Context, held []Held, lease time.Duration) (lost []ID, err error)

	// Log returns items whose number is greater than after, in order, at most limit of them, or
	// [ErrNotFound].
	Log(ctx context.Context, id ID, after uint64, limit int) (*Log, error)
	// Listen has changed be called soon after a write or a signal by any process, with the record's ID and
	// Head, until ctx ends. Calls may be missed: where that is known, it is called with the zero ID, and
	// anything may have changed. It must return at once.
	Listen(ctx context.Context, changed func(id ID, head uint64)) error

	// List returns records in the order in which they were created, without State and Unread, at most
	// limit of them.
	List(ctx context.Context, f Filter, after Cursor, limit int) ([]*Record, error)
	// Forget removes records whose Keep is over, with their logs, at most limit at once, and returns
	// how many it removed.
	Forget(ctx context.Context, limit int) (int, error)

	// Identity is random, and made when the database was: it tells it from all others, and stays
	// with its data.
	Identity(ctx context.Context) (ID, error)
	// Check finds out whether the store can be read and written at present, and returns its time. It tries
	// all that writing a record takes, and leaves nothing behind.
	Check(ctx context.Context) (time.Time, error)
	// Close ends all that waits, with [ErrClosed], and gives up what the store holds. From then on every
	// method fails with ErrClosed; closing again does nothing.
	Close() error
}
