// Package sqlite keeps a ledger in one SQLite file: for a server on one machine.
//
//	store, err := sqlite.Open(ctx, "/var/lib/saga/ledger.db")
//	if err != nil { … }
//	defer store.Close()
//	s, err := server.New(server.Options{Ledger: store, Keys: keys, Tools: tools})
//
// Any number of processes of the machine may have the file open. Who watches a record sees the
// changes of other processes within 50 ms. So does who waits for due records, or within 100 ms
// if nobody had written for some seconds. Servers on several machines need package
// ledger/postgres: SQLite's locks and shared memory do not reach over network file systems.
//
// What a method has acknowledged is on the disk: the file is in WAL mode with
// synchronous=FULL. One goroutine of each process writes, and commits what waits together,
// so that many small changes share one sync of the disk.
//
// Beside the file are three more with its name: "-wal" and "-shm" belong to SQLite, and
// "-wait" tells a process that others want to write. Whoever copies the file while it is open
// must use SQLite's own means (VACUUM INTO, .backup). A ledger that is restored from a copy has
// forgotten which turns were taken since.
//
// # Versions
//
// The file says which program it belongs to (application_id) and which version its tables
// have (user_version = 1000·major + minor). Open brings older tables up to date. A minor step only
// adds columns with defaults, tables and indexes, or drops an index. So a program takes a file whose tables are
// newer by minor steps, and old and new programs can run side by side while servers are
// replaced one after the other. A major step changes what is there: older programs refuse
// the file, also those that have it open.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

const (
	// readers is how many reads can be under way at once; more wait for one another.
	readers = 4
	// patience is how long who writes, or opens a store, waits for other processes that have locked the
	// file and do not get on.
	patience = 5 * time.Second
)

// settings are what tests vary.
type settings struct {
	patience    time.Duration
	schema      []step
	fewWaiting  int
	quietAfter  time.Duration
	synchronous string // as SQLite calls it
}

// usual are the settings of [Open].
func usual() settings { return settings{patience, schema, fewWaiting, quietAfter, "FULL"} }

// store implements [ledger.Store].
type store struct {
	path string // absolute
	file *files

	writer *writer
	waits  *waits
	pool   chan *reader
	set    settings

	closing   chan struct{} // closed when Close begins
	closeOnce sync.Once
	closeErr  error
}

// Open opens the ledger in a file, which it creates if there is none, with its directory. The file
// can be read by its owner only; one that others can read or write is refused, and so are one
// that is no ledger and one with the tables of a newer program that this one does not
// understand. It is safe to open the same file several times at once.
//
// The context limits how long Open waits for other processes that have locked the file. It gives up
// before if they do not get on: nothing was written for 5 seconds.
func Open(ctx context.Context, path string) (ledger.Store, error) {
	return handle(open(ctx, path, usual()))
}

// handle avoids an interface that holds a nil pointer.
func handle(s *store, err error) (ledger.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func open(ctx context.Context, path string, set settings) (*store, error) {
	s := &store{closing: make(chan struct{}), waits: newWaits(), pool: make(chan *reader, readers), set: set}
	if path == "" {
		return nil, errors.New("ledger/sqlite: no file is named")
	}
	var err error
	if s.path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("ledger/sqlite: %w", err)
	}
	if err := createFile(s.path); err != nil {
		return nil, fmt.Errorf("ledger/sqlite: open the ledger %s: %w", s.path, err)
	}
	if err := s.start(ctx); err != nil {
		return nil, s.explain("open", err)
	}
	return s, nil
}

// start readies the tables and begins to write.
func (s *store) start(ctx context.Context) error {
	w := &writer{
		store: s, turn: newTurn(s.path),
		ops: queue{bell: newBell()}, ended: make(chan struct{}), known: make(known), trimAt: walLimit,
	}
	// Others who open the file at the same time may lock it at any point.
	err := w.retry(ctx, func() error { return w.connect() })
	if err != nil {
		return err
	}
	s.writer = w
	// Not later: who opens the file while others are replacing it may open the wrong one.
	for range readers {
		var r *reader
		err := w.retry(ctx, func() (err error) { r, err = s.newReader(); return err })
		if err != nil {
			for range len(s.pool) {
				err = errors.Join(err, (<-s.pool).Close())
			}
			return errors.Join(err, w.st.Close())
		}
		s.pool <- r
	}
	go w.run()
	go s.findNews()
	return nil
}

// Now implements [ledger.Store]: the clock is that of the machine. It asks for the right to
// write, so it fails if the store cannot be written.
func (s *store) Now(ctx context.Context) (time.Time, error) {
	if err := s.writer.do(ctx, &op{run: func(*tx) error { return errNothing }}); err != errNothing {
		return time.Time{}, s.explain("reach", err)
	}
	return time.Now().UTC().Truncate(time.Microsecond), nil
}

// Close implements [ledger.Store]. Changes that are being committed are told their outcome.
// It can be called again.
func (s *store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		<-s.writer.ended
		<-s.waits.ended
		var errs []error
		for range readers {
			errs = append(errs, (<-s.pool).Close())
		}
		// Who closes the file last moves what is in the -wal file to the database itself.
		if err := errors.Join(append(errs, s.writer.st.Close())...); err != nil {
			s.closeErr = s.explain("close", err)
		}
	})
	return s.closeErr
}

func (s *store) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}
