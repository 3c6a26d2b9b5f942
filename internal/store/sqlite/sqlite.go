// Package sqlite keeps a ledger in one SQLite file: for servers on one machine.
//
//	s, err := sqlite.Open(ctx, "/var/lib/saga/ledger.db")
//	if err != nil { … }
//	defer s.Close()
//
// Any number of processes of the machine may have the file open. Servers on several machines need
// PostgreSQL: SQLite's locks and shared memory do not reach over network file systems.
//
// What a method has acknowledged is on the disk: the file is in WAL mode with synchronous=FULL. One
// goroutine of each process writes, and commits together what waits, so that many small writes share
// one sync of the disk. The store's time is the machine's.
//
// Beside the file are three more with its name: "-wal" and "-shm" belong to SQLite, and "-wait" shows
// a process that others want to write. To copy the file while it is open, use SQLite's own means
// (VACUUM INTO, .backup). A ledger that is restored from a copy has forgotten what was done since.
//
// file.go and schema.go open the file; writer.go commits, when lock.go says so, what write.go, take.go
// and forget.go change; read.go and listen.go look.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// readers is how many reads can be under way at once; more wait for one another.
const readers = 4

// settings are what tests vary.
type settings struct {
	patience    time.Duration // how long to wait for a process that has locked the file and does not get on
	synchronous string        // as SQLite calls it
}

func usual() settings { return settings{5 * time.Second, "FULL"} }

// ledger implements [store.Store].
type ledger struct {
	path      string // absolute
	set       settings
	identity  store.ID
	files     *files
	clock     clock
	writer    *writer
	pool      chan *conn // connections that only read
	listeners listeners

	closing   chan struct{} // closed when Close begins
	closeOnce sync.Once
	closeErr  error
}

// Open opens the ledger in a file, which it creates if there is none, with its directory. Only its owner
// can read the file. Open refuses a file that others can read or write, one that is no ledger, and
// one in a format that this package does not know.
//
// The context limits how long Open waits for other processes that have locked the file. It gives up
// earlier if these have written nothing for 5 seconds.
func Open(ctx context.Context, path string) (store.Store, error) {
	l, err := open(ctx, path, usual())
	if err != nil {
		return nil, err // not an interface that holds a nil pointer
	}
	return l, nil
}

func open(ctx context.Context, path string, set settings) (*ledger, error) {
	if path == "" {
		return nil, errors.New("sqlite: no file is named")
	}
	l := &ledger{set: set, pool: make(chan *conn, readers), closing: make(chan struct{})}
	var err error
	if l.path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if err := createFile(l.path); err != nil {
		return nil, fmt.Errorf("sqlite: open the ledger %s: %w", l.path, err)
	}
	if err := l.start(ctx); err != nil {
		return nil, l.explain("open", err)
	}
	return l, nil
}

// start makes the connections, and begins to write.
func (l *ledger) start(ctx context.Context) (err error) {
	lock := &lock{path: l.path, patience: l.set.patience, sign: newSign(l.path)}
	var c *conn
	err = lock.wait(ctx.Done(), func() error { c, err = l.connectWriter(); return err })
	// The readers follow at once: later, another file may be there by that name.
	for range readers {
		if err == nil {
			var r *conn
			if err = lock.wait(ctx.Done(), func() error { r, err = l.connectReader(); return err }); err == nil {
				l.pool <- r
			}
		}
	}
	if err != nil {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		for range len(l.pool) {
			err = errors.Join(err, (<-l.pool).Close())
		}
		if errors.Is(err, errStopped) {
			return ctx.Err()
		}
		return err
	}
	l.writer = newWriter(l, c, lock)
	go l.writer.run()
	return nil
}

// Close implements [store.Store]. Writes that are being committed are waited for.
func (l *ledger) Close() error {
	l.closeOnce.Do(func() {
		close(l.closing)
		<-l.writer.ended
		var errs []error
		for range readers {
			errs = append(errs, (<-l.pool).Close())
		}
		// The connection that is closed last moves what is in the -wal file to the database itself.
		l.closeErr = l.explain("close", errors.Join(append(errs, l.writer.conn.Close())...))
	})
	return l.closeErr
}

func (l *ledger) isClosed() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// Identity implements [store.Store].
func (l *ledger) Identity(ctx context.Context) (store.ID, error) {
	if err := l.read(ctx, func(*conn) error { return nil }); err != nil {
		return store.ID{}, l.explain("read", err)
	}
	return l.identity, nil
}

// Check implements [store.Store]. It asks for the right to write.
func (l *ledger) Check(ctx context.Context) (now time.Time, err error) {
	err = l.writer.do(ctx, &op{run: func(w *writer) error { now = w.now(); return errNothing }})
	if err != errNothing {
		return time.Time{}, l.explain("reach", err)
	}
	return now, nil
}

// clock is the machine's clock, except that it never goes backwards.
type clock struct {
	mu   sync.Mutex
	last time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := store.Micro(time.Now()); now.After(c.last) {
		c.last = now
	}
	return c.last
}
