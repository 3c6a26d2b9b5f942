package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	groupOps   = 256      // operations that are committed together at most
	groupBytes = 4 << 20  // bytes of bodies after which a group takes no more operations
	walLimit   = 16 << 20 // about how large the -wal file gets, in bytes; SQLite tries from 12 MiB on
)

// op is something to do in a transaction.
type op struct {
	// run does it. It finds out whether the operation can be done before it changes anything: see
	// [changedNothing].
	run   func(*writer) error
	bytes int // about how much it writes
	// id and head are what to tell those who listen when it is committed, if id is not zero.
	id   store.ID
	head uint64

	// begun is set by the writer before it runs the operation, or by a caller that gives up before that:
	// whichever is first.
	begun atomic.Bool
	err   error      // what run returned
	done  chan error // gets the outcome
}

// writer is the only part of the process that changes the database: one goroutine with one connection.
type writer struct {
	*conn
	ledger *database
	ops    chan *op
	poll   chan struct{} // asks for [writer.look]
	ended  chan struct{}

	told      int64     // version when changes by other processes were last told
	shortened time.Time // when that was last tried
}

func newWriter(l *database) *writer {
	return &writer{ledger: l, ops: make(chan *op, groupOps), poll: make(chan struct{}, 1), ended: make(chan struct{})}
}

// do has an operation done, and returns when its outcome is on the disk. If ctx ends before it has begun,
// nothing is changed; after that it takes no longer than a commit, and the outcome is awaited.
func (w *writer) do(ctx context.Context, o *op) error {
	if err := w.ledger.usable(ctx); err != nil {
		return err
	}
	o.done = make(chan error, 1)
	select {
	case w.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ended:
		return store.ErrClosed
	}
	var gaveUp error
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		gaveUp = ctx.Err()
	case <-w.ended:
		gaveUp = store.ErrClosed
	}
	if o.begun.CompareAndSwap(false, true) {
		return gaveUp
	}
	return <-o.done
}

func (w *writer) run() {
	defer close(w.ended)
	for {
		select {
		case o := <-w.ops:
			w.group(o)
		case <-w.poll:
			w.look()
		case <-w.ledger.closing:
			return
		}
	}
}

// next returns another operation for a group, or nil. If none is queued, it lets goroutines run first that may
// be about to write.
func (w *writer) next() *op {
	for range 2 {
		select {
		case o := <-w.ops:
			return o
		default:
			runtime.Gosched()
		}
	}
	return nil
}

// group does an operation, and others that wait, in one transaction, and tells their outcomes
// when it is on the disk.
func (w *writer) group(first *op) {
	failed := w.begin()
	bytes, changed := 0, false
	var did []*op
	for o := first; o != nil; {
		if o.begun.CompareAndSwap(false, true) {
			did = append(did, o)
			if failed == nil {
				o.err = o.run(w)
				changed = changed || o.err == nil
				if !changedNothing(o.err) {
					failed = o.err
				}
			}
			bytes += o.bytes
		}
		o = nil
		if len(did) < groupOps && bytes < groupBytes {
			o = w.next()
		}
	}
	outcome := failed // of those that changed something
	if failed == nil && changed {
		if failed = w.exec("COMMIT"); failed != nil {
			// The last pages may be on the disk nevertheless, and found there after a crash.
			outcome = fmt.Errorf("%w: commit: %w", store.ErrUnknown, failed)
		}
	}
	if !w.AutocommitEnabled() {
		_ = w.exec("ROLLBACK") // if it fails, so does the next group
	}
	for _, o := range did {
		if o.err == nil {
			o.err = outcome
		} else if failed != nil { // it may have seen what others of the group did
			o.err = failed
		}
		if o.err == nil && o.id != (store.ID{}) {
			w.ledger.listeners.Tell(o.id, o.head)
		}
		o.done <- o.err
	}
	if failed == nil {
		w.shorten()
	}
}

// begin begins a transaction that may write, when no other process does.
func (w *writer) begin() error {
	err := w.ledger.wait(w.ledger.closing, func() error { return w.exec("BEGIN IMMEDIATE") })
	if err == errStopped {
		return store.ErrClosed
	}
	if err != nil {
		return err
	}
	return w.ledger.files.check()
}

// lockPoll is about how often a process that waits for the file tries to lock it. SQLite's own way to wait pauses for
// ever longer, so that nearly always the process that has just let go of the file gets it again.
const lockPoll = time.Millisecond

// wait tries until no other process is in the way, but no longer than the patience of the settings. Stop ends it with
// [errStopped].
func (l *database) wait(stop <-chan struct{}, try func() error) error {
	err := try()
	for began := time.Now(); isBusy(err) && time.Since(began) < l.set.patience; err = try() {
		select {
		case <-stop:
			return errStopped
		case <-time.After(lockPoll/2 + rand.N(lockPoll)):
		}
	}
	return err
}

// shorten empties the -wal file when it has grown large. SQLite does so by itself only at a moment at
// which no connection reads, and never gives its space back. It waits for those who read, but not for long: one may be
// a process that was stopped.
func (w *writer) shorten() {
	wal, err := os.Stat(w.ledger.path + "-wal")
	if err != nil || wal.Size() < walLimit || time.Since(w.shortened) < time.Second {
		return
	}
	w.SetBusyTimeout(100 * time.Millisecond)
	_ = w.exec("PRAGMA wal_checkpoint(TRUNCATE)") // the next group finds out if something is wrong
	w.SetBusyTimeout(0)
	w.shortened = time.Now()
}

// look finds out whether another process has changed something, and tells those who listen. It tells
// them as well if it cannot find out: they see the error when they read.
func (w *writer) look() {
	err := w.ledger.files.check()
	var version int64
	if err == nil {
		version, err = w.number("PRAGMA data_version")
	}
	if err != nil || version != w.told {
		w.told = version
		w.ledger.listeners.Tell(store.ID{}, 0)
	}
}
