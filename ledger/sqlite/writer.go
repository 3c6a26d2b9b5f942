package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
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

// errNothing is the outcome of an operation that had nothing to change.
var errNothing = errors.New("nothing to change")

// broken is the error of a statement that failed: the whole group is rolled back.
type broken struct{ error }

func (b *broken) Unwrap() error { return b.error }

// tx is the transaction of a group.
type tx struct {
	*writer
	dirty bool   // something was changed
	news  []news // what to tell when it is committed
}

// writer is the only one in the process that changes the database: one goroutine with one connection.
type writer struct {
	store *store
	st    writeStatements
	major int // version of the tables
	turn  *turn
	ops   queue
	dones sync.Pool // of chan error, empty ones
	ended chan struct{}
	known known

	told, checked int64     // [writer.version] when others' changes were told, and the tables' version checked
	written       time.Time // of the -wal file, when it was looked at last
	active        time.Time // when that was found to have changed
	looked        time.Time // when SQLite was asked for changes by others
	walSize       int64     // of the -wal file, before the last group
	trimAt        int64     // the size at which [writer.trim] does something
	unclosed      bool      // the last transaction could be neither committed nor rolled back

	did  []*op // room for a group
	news []news
}

// connect makes the connection, and readies the tables.
func (w *writer) connect() (err error) {
	if w.st.conn, err = dial(w.store.path, w.store.set.synchronous); err != nil {
		return err
	}
	if err := w.ready(); err != nil {
		return errors.Join(err, w.st.Close())
	}
	return nil
}

func (w *writer) ready() (err error) {
	if w.major, err = prepareFile(w.st.conn, w.store.set.schema); err != nil {
		return err
	}
	if err := w.st.prepare(); err != nil {
		return err
	}
	// SQLite opens a file that it may only read, and says so when it is to write.
	if err = run(w.st.begin); err == nil {
		err = run(w.st.rollback)
	}
	if err != nil && !isBusy(err) {
		return err
	}
	w.store.file, err = identify(w.store.path)
	return err
}

// do has an operation done, and returns when its outcome is on the disk. If ctx ends before it has begun,
// nothing was changed; if it ends while the group is being committed, the outcome is unknown.
func (w *writer) do(ctx context.Context, o *op) error {
	if w.store.isClosed() {
		return ledger.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	done, _ := w.dones.Get().(chan error)
	if done == nil {
		done = make(chan error, 1)
	}
	o.done = done
	if !w.ops.add(o) {
		return ledger.ErrClosed
	}
	select {
	case err := <-done:
		w.dones.Put(done) // not if the writer may use it yet
		return err
	case <-ctx.Done():
		if o.begun.CompareAndSwap(false, true) {
			o.run = nil // it may wait for long, and need not keep what it would have written
			return ctx.Err()
		}
	}
	select {
	case err := <-done:
		return err
	default:
		return fmt.Errorf("%w: %w", ledger.ErrUnknown, ctx.Err())
	}
}

// run is the writer's goroutine.
func (w *writer) run() {
	defer close(w.ended)
	defer func() {
		w.ops.close()
		w.refuse(w.ops.take(), ledger.ErrClosed)
	}()
	idle := time.NewTimer(0)
	defer idle.Stop()
	for !w.store.isClosed() {
		if o := w.ops.take(); o != nil {
			w.group(o)
			continue
		}
		idle.Reset(w.store.waits.interval(time.Since(w.active) > w.store.set.quietAfter))
		select {
		case <-w.store.closing:
		case <-w.ops.bell:
		case <-idle.C:
			w.look()
		case <-w.store.waits.hurry:
		}
	}
}

// next returns another operation for a group that began then, or nil. If none waits, it lets those
// run who are about to write something: as long as more come, but not for long. What they do
// meanwhile, and what was done before for the group, can so happen at the same time.
func (w *writer) next(began time.Time) *op {
	if o := w.ops.take(); o != nil {
		return o
	}
	if time.Since(began) >= gatherTime {
		return nil
	}
	runtime.Gosched()
	return w.ops.take()
}

// group does an operation, and others that wait, in one transaction, and tells their outcomes
// when it is on the disk.
func (w *writer) group(first *op) {
	if err := w.begin(); err != nil {
		w.refuse(first, err)
		return
	}
	began := time.Now()
	t := &tx{writer: w, news: w.news}
	did := w.did // all that were run
	var failed error
	for o, bytes := first, 0; o != nil && failed == nil; {
		if o.begun.CompareAndSwap(false, true) {
			o.err = o.run(t)
			var b *broken
			if errors.As(o.err, &b) {
				failed = b.error
			}
			did = append(did, o)
			bytes += o.bytes
		}
		o = nil
		if len(did) < groupOps && bytes < groupBytes {
			o = w.next(began)
		}
	}
	if failed == nil && t.dirty {
		if err := run(w.st.commit); err != nil {
			w.rollback()
			failed = fmt.Errorf("commit: %w", err)
			for _, o := range did {
				// The last pages may be on the disk nevertheless, and found there after a crash. Who
				// has changed nothing may have seen the work of this very group.
				if o.err == nil {
					o.done <- fmt.Errorf("%w: %w", ledger.ErrUnknown, failed)
				} else {
					o.done <- failed
				}
			}
			return
		}
	} else {
		w.rollback()
	}
	for _, o := range did {
		if failed != nil {
			o.err = failed
		}
		o.done <- o.err
	}
	if failed == nil {
		w.store.waits.tell(t.news)
	}
	clear(did)
	clear(t.news)
	w.did, w.news = did[:0], t.news[:0] // for the next
	w.trim()
	w.turn.yield()
}

// trim empties the -wal file when it has grown large. SQLite does so by itself only at a moment at
// which nobody reads, and if many read there is none. Who reads then is waited for, but not for
// long: it may be a process that was stopped.
func (w *writer) trim() {
	if w.walSize < w.trimAt {
		if w.walSize < walLimit {
			w.trimAt = walLimit
		}
		return
	}
	w.trimAt = w.walSize + walLimit
	w.st.SetBusyTimeout(200 * time.Millisecond)
	_ = each(w.st.checkpoint, func() {}) // the next group finds out if something is wrong
	w.st.SetBusyTimeout(0)
}

// refuse ends all operations that wait. They are collected first: who has got the outcome may
// remove its cause, and what he tries next must not meet it.
func (w *writer) refuse(o *op, err error) {
	var refused []*op
	for ; o != nil; o = w.ops.take() {
		if o.begun.CompareAndSwap(false, true) {
			refused = append(refused, o)
		}
	}
	for _, o := range refused {
		o.done <- err
	}
}

// begin begins a transaction that may write, when it is this process's turn.
func (w *writer) begin() error {
	if w.unclosed {
		w.rollback()
	}
	err := w.lock()
	if err != nil {
		return err
	}
	wal, err := w.store.file.check()
	if err == nil {
		w.walSize = wal.Size()
		err = w.check()
	}
	if err != nil {
		w.rollback()
	}
	return err
}

func (w *writer) rollback() {
	w.unclosed = run(w.st.rollback) != nil
}

// lock waits until no other process writes: for as long as others get on, but not for one that hangs.
func (w *writer) lock() error {
	var others *pulse // once it has to wait for them
	for {
		err := run(w.st.begin)
		if err == nil || !isBusy(err) {
			return err
		}
		if others == nil {
			others = newPulse(w.store.path)
			defer w.turn.done()
		}
		waited := others.idle()
		if waited > w.store.set.patience {
			return fmt.Errorf("%w (%w)", errLocked, err)
		}
		w.turn.wait()
		select {
		case <-w.store.closing:
			return ledger.ErrClosed
		case <-time.After(jitter(turnPoll + waited/100)):
		}
		w.look() // those who only read go on
	}
}

// look finds out whether another process has changed something, and tells those who wait.
func (w *writer) look() {
	wal, err := same(w.store.file.walPath, w.store.file.wal)
	if err == nil {
		// To ask SQLite costs more than all the rest, and servers look all the time. So it is asked
		// only for a while after the -wal file was written: syncing that may take long.
		// Windows notes the time late.
		if written := wal.ModTime(); written != w.written {
			w.written, w.active = written, time.Now()
		}
		if time.Since(w.active) > relook && time.Since(w.looked) < relook && runtime.GOOS != "windows" {
			return
		}
		w.looked = time.Now()
		var now int64
		if now, err = w.version(); err == nil && now == w.told {
			return
		}
		w.told = now
	}
	w.store.waits.tellAll() // who looks for himself sees the error as well
}

// check sees to it, within a transaction, that a newer program has not changed the tables
// meanwhile, and tells those who wait if others have written.
func (w *writer) check() error {
	now, err := w.version()
	if err != nil {
		return err
	}
	if now != w.checked {
		clear(w.known)
		var found int
		if _, err := one(w.st.userVersion, func() { found = w.st.userVersion.ColumnInt(0) }); err != nil {
			return err
		}
		if err := checkMajor(found, w.major); err != nil {
			return err
		}
		w.checked = now
	}
	if now != w.told {
		w.told = now
		w.store.waits.tellAll()
	}
	return nil
}

// version is a number that changes when another connection has committed something.
func (w *writer) version() (n int64, err error) {
	_, err = one(w.st.dataVersion, func() { n = w.st.dataVersion.ColumnInt64(0) })
	return n, err
}
