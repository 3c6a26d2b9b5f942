package sqlite

import (
	"context"
	"errors"
	"math"

	driver "zombiezen.com/go/sqlite"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// reader is a connection that only reads, with its statements. It sees what is committed, and
// neither waits for the writer nor holds it up.
type reader struct{ readStatements }

// read has a free connection do something. The statements are short, so ctx limits only how long to
// wait for the connection.
func (s *store) read(ctx context.Context, do func(*reader) error) error {
	if s.isClosed() {
		return ledger.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var r *reader
	select {
	case r = <-s.pool:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return ledger.ErrClosed
	}
	defer func() { s.pool <- r }()
	if _, err := s.file.check(); err != nil {
		return err
	}
	err := do(r)
	if err != nil && err != ledger.ErrNotFound { // perhaps since the files were replaced meanwhile
		if _, moved := s.file.check(); moved != nil {
			return moved
		}
	}
	return err
}

func (s *store) newReader() (*reader, error) {
	c, err := dial(s.path, s.set.synchronous)
	if err != nil {
		return nil, err
	}
	r := &reader{readStatements{conn: c}}
	if err = r.exec("PRAGMA query_only = 1"); err == nil {
		err = r.prepare()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.SetBusyTimeout(readBusy)
	return r, nil
}

// Load implements [ledger.Store].
func (s *store) Load(ctx context.Context, key string) (rec *ledger.Record, err error) {
	err = s.read(ctx, func(r *reader) error {
		r.load.BindText(1, key)
		rec, err = scan(key, r.load)
		return err
	})
	if err != nil {
		return nil, s.explain("read", err)
	}
	return rec, nil
}

// scan reads the columns rev, queue, owner, wake, keep, body of the one row that a statement finds.
func scan(key string, s *driver.Stmt) (r *ledger.Record, err error) {
	found, err := one(s, func() {
		r = &ledger.Record{
			Key: key, Rev: uint64(s.ColumnInt64(0)), Queue: s.ColumnText(1), Owner: s.ColumnText(2),
			Wake: timeOf(s, 3), Keep: timeOf(s, 4), Body: bytesOf(s, 5),
		}
	})
	if err == nil && !found {
		err = ledger.ErrNotFound
	}
	return r, err
}

// Items implements [ledger.Store].
func (s *store) Items(ctx context.Context, key string, after uint64, limit int) (list []ledger.Item, err error) {
	after, limit = min(after, math.MaxInt64), max(0, limit) // to SQLite, a negative limit is none
	err = s.read(ctx, func(r *reader) error {
		r.items.BindText(1, key)
		r.items.BindInt64(2, int64(after))
		r.items.BindInt64(3, int64(limit))
		return each(r.items, func() {
			list = append(list, ledger.Item{N: uint64(r.items.ColumnInt64(0)), Body: bytesOf(r.items, 1)})
		})
	})
	if err != nil {
		return nil, s.explain("read", err)
	}
	return list, nil
}

// Count implements [ledger.Store].
func (s *store) Count(ctx context.Context, owner string, most int) (n int, err error) {
	err = s.read(ctx, func(r *reader) error {
		r.count.BindText(1, owner)
		r.count.BindInt64(2, int64(max(0, most)))
		_, err := one(r.count, func() { n = r.count.ColumnInt(0) })
		return err
	})
	return n, s.explain("read", err)
}
