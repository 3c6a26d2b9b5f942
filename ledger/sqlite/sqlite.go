// Package sqlite keeps a ledger in one SQLite file: for servers on one machine.
//
//	store, err := sqlite.Open(ctx, "/var/lib/saga/ledger.db")
//	if err != nil { … }
//	defer store.Close()
//	s, err := server.New(server.Options{Ledger: store, Keys: keys, Tools: tools})
//
// Any number of processes of the machine may have the file open. Servers on several machines need
// package ledger/postgres: SQLite's locks and shared memory do not reach over network file systems.
//
// What a method has acknowledged is on the disk: the file is in WAL mode with synchronous=FULL. One
// goroutine of each process writes, and commits together what waits, so that many small writes share
// one sync of the disk. The store's time is the machine's.
//
// Beside the file are two more with its name, "-wal" and "-shm", which belong to SQLite. To copy the file while it is
// open, use SQLite's own means (VACUUM INTO, .backup). A ledger that is restored from a copy has forgotten what was
// done since.
//
// file.go and schema.go ready the file; writer.go commits what write.go, take.go and forget.go change; read.go and
// listen.go look; conn.go has what they say to SQLite with.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// readers is how many reads can be under way at once; more wait for one another.
const readers = 4

// settings are what tests vary.
type settings struct {
	patience    time.Duration // how long to wait for another process that has locked the file
	synchronous string        // as SQLite calls it
	says        func(query string)
}

func usual() settings { return settings{patience: 5 * time.Second, synchronous: "FULL"} }

// database implements [store.Store].
type database struct {
	path     string // absolute
	set      settings
	identity store.ID
	files    files
	writer   *writer
	pool     chan *conn // connections that only read

	closing chan struct{} // closed when Close begins
	shut    func() error

	clock  sync.Mutex
	last   time.Time // see now
	looked time.Time // when last was worked out

	listeners store.Listeners
}

// Open opens the ledger in a file, which it creates if there is none; its directory is to be there. Only its owner
// can read the file. Open refuses a file that others can read or write, one that is no ledger, and
// one in a format that this package does not know.
//
// The context limits how long Open waits for other processes that have locked the file; 5 seconds do, too.
func Open(ctx context.Context, path string) (ledger.Store, error) {
	return open(ctx, path, usual())
}

func open(ctx context.Context, path string, set settings) (store.Store, error) {
	if path == "" {
		return nil, errors.New("sqlite: no file is named")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	l := &database{path: path, set: set, pool: make(chan *conn, readers), closing: make(chan struct{})}
	if err := createFile(path); err != nil {
		return nil, l.explain("open", err)
	}
	l.writer = newWriter(l)
	l.shut = sync.OnceValue(l.shutDown)
	if err := l.wait(ctx.Done(), l.connect); err == errStopped {
		return nil, ctx.Err()
	} else if err != nil {
		return nil, l.explain("open", err)
	}
	go l.writer.run()
	return l, nil
}

// connect makes all connections, and the tables if there are none. It makes those for readers at once:
// later, another file may be there by that name.
func (l *database) connect() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, l.disconnect(len(l.pool)))
		}
	}()
	w, err := dial(l.path, l.set)
	if err != nil {
		return err
	}
	l.writer.conn = w
	if err := w.prepareFile(); err != nil {
		return err
	}
	// SQLite opens a file that it may only read, and says so when it is to write.
	if err = w.exec("BEGIN IMMEDIATE"); err == nil {
		err = w.exec("ROLLBACK")
	}
	if err != nil && !isBusy(err) {
		return err
	}
	for range readers {
		r, err := dial(l.path, l.set)
		if err != nil {
			return err
		}
		l.pool <- r
		if err := r.exec("PRAGMA query_only = 1"); err != nil {
			return err
		}
		r.SetBusyTimeout(l.set.patience)
	}
	if l.files, err = identify(l.path); err != nil {
		return err
	}
	_, err = w.each("SELECT id FROM ledger WHERE n = 1", func(s *row) { l.identity = s.id(0) })
	return err
}

// disconnect closes all connections; so many of them are for reading. The last one moves what is in the
// -wal file to the database itself.
func (l *database) disconnect(reading int) (err error) {
	for range reading {
		err = errors.Join(err, (<-l.pool).Close())
	}
	if l.writer.conn != nil {
		err = errors.Join(err, l.writer.conn.Close())
	}
	l.writer.conn = nil
	return err
}

// Close waits for writes that are being committed.
func (l *database) Close() error { return l.shut() }

func (l *database) shutDown() error {
	close(l.closing)
	<-l.writer.ended
	return l.explain("close", l.disconnect(readers))
}

// usable reports why nothing can be done: the store was closed, or the context has ended.
func (l *database) usable(ctx context.Context) error {
	select {
	case <-l.closing:
		return store.ErrClosed
	default:
		return ctx.Err()
	}
}

func (l *database) Identity(ctx context.Context) (store.ID, error) {
	return l.identity, l.usable(ctx)
}

// Check writes a record in both ways, and removes it in the same transaction.
func (l *database) Check(ctx context.Context) (time.Time, error) {
	r, c := store.Trial()
	err := l.writer.do(ctx, &op{bytes: len(r.State), run: func(w *writer) error {
		for range 2 {
			if err := w.write(r, c); err != nil {
				return err
			}
			r.Head, r.Floor = 1, 1 // so that the first item is removed
		}
		_, n, err := w.find(r.ID)
		if err != nil {
			return err
		}
		return w.remove(n)
	}})
	if err != nil {
		return time.Time{}, l.explain("reach", err)
	}
	return l.now(), nil
}

// now is the machine's time, except that it never goes backwards. After the machine's clock was set back it runs at
// half its pace until that clock has caught up, so that leases still end and what sleeps still wakes.
func (l *database) now() time.Time {
	l.clock.Lock()
	defer l.clock.Unlock()
	now := time.Now()
	elapsed := now.Sub(l.looked) // whatever the clock was set to meanwhile
	if l.looked = now; now.Round(0).After(l.last) {
		l.last = now.Round(0)
	} else {
		l.last = l.last.Add(elapsed / 2)
	}
	return store.Micro(l.last)
}

var (
	// errNothing is the outcome of an operation that had nothing to change.
	errNothing = errors.New("nothing to change")
	// errStopped: the caller has given up.
	errStopped = errors.New("stopped")
	// errMoved: what is written would go into a file that will not be found again.
	errMoved = errors.New("its file, or the one named -wal beside it, was removed or replaced while it was open: " +
		"put the old ones back, or start this program again")
)

// changedNothing reports whether an operation with such an outcome has changed nothing. After any other
// error, its transaction cannot go on.
func changedNothing(err error) bool {
	return err == errNothing || err == store.ErrNotFound || err == store.ErrConflict || err == store.ErrFull
}
