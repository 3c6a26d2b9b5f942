package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	// groupOps is how many operations are committed together at most.
	groupOps = 256
	// groupBytes is after how many bytes of bodies a group takes no more operations.
	groupBytes = 4 << 20
	// gatherTime is for how long a group waits for others who are about to write, about: less than
	// most disks take to sync.
	gatherTime = 500 * time.Microsecond
	// walLimit is about how large the -wal file gets, in bytes. SQLite tries from 12 MiB on.
	walLimit = 16 << 20
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
	ledger *ledger
	lock   *lock
	ops    chan *op
	poll   chan struct{} // asks for [writer.look]
	ended  chan struct{}

	told     int64 // version when changes by other processes were last told
	walSize  int64 // before the last group
	trimAt   int64 // the size at which trim does something
	unclosed bool  // the last transaction could be neither committed nor rolled back
}

func newWriter(l *ledger, c *conn, lock *lock) *writer {
	w := &writer{
		conn: c, ledger: l, lock: lock, trimAt: walLimit,
		ops: make(chan *op, groupOps), poll: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	lock.poll, lock.look = w.poll, w.look
	return w
}

func (w *writer) now() time.Time { return w.ledger.clock.now() }

// do has an operation done, and returns when its outcome is on the disk. If ctx ends before it has begun,
// nothing is changed; after that it takes no longer than a commit, and the outcome is awaited.
func (w *writer) do(ctx context.Context, o *op) error {
	if w.ledger.isClosed() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
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

// run is the writer's goroutine.
func (w *writer) run() {
	defer close(w.ended)
	for !w.ledger.isClosed() {
		select {
		case o := <-w.ops:
			w.group(o)
		case <-w.poll:
			w.look()
		case <-w.ledger.closing:
		}
	}
}

// next returns another operation for a group that began then, or nil. If none waits, it lets those
// run who are about to write something: as long as more come, but not for long. What they do
// meanwhile, and what was done before for the group, can so happen at the same time.
func (w *writer) next(began time.Time) *op {
	for try := 0; ; try++ {
		select {
		case o := <-w.ops:
			return o
		default:
		}
		if try > 0 || time.Since(began) >= gatherTime {
			return nil
		}
		runtime.Gosched()
	}
}

// group does an operation, and others that wait, in one transaction, and tells their outcomes
// when it is on the disk.
func (w *writer) group(first *op) {
	failed := w.begin()
	began, bytes, dirty := time.Now(), 0, false
	var did []*op
	for o := first; o != nil; {
		if o.begun.CompareAndSwap(false, true) {
			did = append(did, o)
			if failed == nil {
				o.err = o.run(w)
				bytes += o.bytes
				dirty = dirty || o.err == nil
				if o.err != nil && !changedNothing(o.err) {
					failed = o.err
				}
			}
		}
		o = nil
		if len(did) < groupOps && bytes < groupBytes {
			o = w.next(began)
		}
	}
	uncommitted := false
	if failed == nil && dirty {
		if err := exec(w.commit); err != nil {
			failed, uncommitted = fmt.Errorf("commit: %w", err), true
		}
	}
	if failed != nil || !dirty {
		w.end()
	}
	for _, o := range did {
		switch {
		case failed == nil:
			o.done <- o.err
		case uncommitted && o.err == nil:
			// The last pages may be on the disk nevertheless, and found there after a crash.
			o.done <- fmt.Errorf("%w: %w", store.ErrUnknown, failed)
		default: // it may have seen what others of the group did
			o.done <- failed
		}
	}
	if failed == nil {
		w.ledger.listeners.tellOf(did)
		w.shorten()
		w.lock.yield()
	}
}

// begin begins a transaction that may write, when no other process does.
func (w *writer) begin() error {
	if w.unclosed {
		w.end()
	}
	err := w.lock.wait(w.ledger.closing, func() error { return exec(w.conn.begin) })
	if errors.Is(err, errStopped) {
		return store.ErrClosed
	}
	if err != nil {
		return err
	}
	w.walSize, err = w.ledger.files.check()
	return err
}

// end rolls the transaction back, if there is one.
func (w *writer) end() {
	w.unclosed = !w.AutocommitEnabled() && exec(w.rollback) != nil
}

// shorten empties the -wal file when it has grown large. SQLite does so by itself only at a moment at
// which nobody reads, and if many read there is none. Those who read then are waited for, but not for
// long: one may be a process that was stopped.
func (w *writer) shorten() {
	if w.walSize < w.trimAt {
		w.trimAt = max(walLimit, min(w.trimAt, w.walSize+walLimit))
		return
	}
	w.trimAt = w.walSize + walLimit
	w.SetBusyTimeout(200 * time.Millisecond)
	_ = exec(w.checkpoint) // the next group finds out if something is wrong
	w.SetBusyTimeout(0)
}

// look finds out whether another process has changed something, and tells those who listen. They are
// told as well if that cannot be found out: they see the error when they read.
func (w *writer) look() {
	var now int64
	_, err := w.ledger.files.check()
	if err == nil {
		_, err = each(w.version, func() { now = w.version.ColumnInt64(0) })
	}
	if err != nil || now != w.told {
		w.told = now
		w.ledger.listeners.tell(store.ID{}, 0)
	}
}
