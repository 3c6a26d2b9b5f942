package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"

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
	if code(err) != 0 { // perhaps since the files were replaced meanwhile
		if _, moved := s.file.check(); moved != nil {
			return moved
		}
	}
	return err
}

func (s *store) newReader() (*reader, error) {
	ctx := context.Background()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	r := new(reader)
	if _, err := conn.ExecContext(ctx, "PRAGMA query_only = 1"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := r.prepare(ctx, conn); err != nil {
		return nil, err
	}
	return r, nil
}

// Load implements [ledger.Store].
func (s *store) Load(ctx context.Context, key string) (rec *ledger.Record, err error) {
	err = s.read(ctx, func(r *reader) error {
		rec, err = scan(key, r.load.QueryRow(key))
		return err
	})
	if err != nil {
		return nil, s.explain("read", err)
	}
	return rec, nil
}

// scan reads the columns rev, queue, owner, wake, keep, body.
func scan(key string, row *sql.Row) (*ledger.Record, error) {
	r := &ledger.Record{Key: key}
	var queue, owner sql.NullString
	var wake, keep sql.NullInt64
	err := row.Scan(&r.Rev, &queue, &owner, &wake, &keep, &r.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ledger.ErrNotFound
	}
	r.Queue, r.Owner, r.Wake, r.Keep = queue.String, owner.String, fromMicros(wake), fromMicros(keep)
	return r, err
}

// Items implements [ledger.Store].
func (s *store) Items(ctx context.Context, key string, after uint64, limit int) (list []ledger.Item, err error) {
	after, limit = min(after, math.MaxInt64), max(0, limit) // to SQLite, a negative limit is none
	err = s.read(ctx, func(r *reader) error {
		rows, err := r.items.Query(key, int64(after), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var i ledger.Item
			if err := rows.Scan(&i.N, &i.Body); err != nil {
				return err
			}
			list = append(list, i)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, s.explain("read", err)
	}
	return list, nil
}

// Count implements [ledger.Store].
func (s *store) Count(ctx context.Context, owner string, most int) (n int, err error) {
	err = s.read(ctx, func(r *reader) error { return r.count.QueryRow(owner, max(0, most)).Scan(&n) })
	return n, s.explain("read", err)
}

// List implements [ledger.Store].
func (s *store) List(ctx context.Context, queues []string, after string, limit int) (list []*ledger.Record, err error) {
	limit = max(0, limit)
	err = s.read(ctx, func(r *reader) error {
		// One transaction: a record is not missed because it moves to another queue meanwhile.
		if _, err := r.begin.Exec(); err != nil {
			return err
		}
		defer r.rollback.Exec()
		list, err = r.list(r.listed, queues, after, limit)
		return err
	})
	if err != nil {
		return nil, s.explain("read", err)
	}
	return list, nil
}

// Owned implements [ledger.Store].
func (s *store) Owned(ctx context.Context, owners []string, after string, limit int) (list []*ledger.Record, err error) {
	limit = max(0, limit)
	err = s.read(ctx, func(r *reader) error {
		if _, err := r.begin.Exec(); err != nil {
			return err
		}
		defer r.rollback.Exec()
		list, err = r.list(r.owned, owners, after, limit)
		return err
	})
	if err != nil {
		return nil, s.explain("read", err)
	}
	return list, nil
}

// list returns the first records by key of those that a statement finds for each of the names.
func (r *reader) list(find *sql.Stmt, names []string, after string, limit int) (list []*ledger.Record, err error) {
	type found struct {
		key string
		id  int64
	}
	var all []found
	for _, name := range distinct(names) {
		rows, err := find.Query(name, after, limit)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var f found
			if err := rows.Scan(&f.key, &f.id); err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			all = append(all, f)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		slices.SortFunc(all, func(a, b found) int { return strings.Compare(a.key, b.key) })
		all = all[:min(limit, len(all))]
	}
	for _, f := range all {
		rec, err := scan(f.key, r.byID.QueryRow(f.id))
		if err != nil {
			return nil, err
		}
		list = append(list, rec)
	}
	return list, nil
}

// distinct are the names that can be those of queues or owners, each once.
func distinct(names []string) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}
