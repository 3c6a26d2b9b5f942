package service

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // the database, in Go
)

// The log has a line for everything that ever happened to a hold, so that it can be
// seen that nothing happened twice.
const schema = `
CREATE TABLE IF NOT EXISTS holds (
	key       TEXT PRIMARY KEY,
	item      TEXT NOT NULL,
	units     INTEGER NOT NULL,
	reference TEXT NOT NULL,
	amount    INTEGER NOT NULL,
	state     TEXT NOT NULL,
	kept      INTEGER NOT NULL,
	expires   INTEGER NOT NULL -- Unix time in nanoseconds
) STRICT;
CREATE INDEX IF NOT EXISTS holds_item ON holds (item, state);
CREATE TABLE IF NOT EXISTS log (
	seq   INTEGER PRIMARY KEY AUTOINCREMENT,
	key   TEXT NOT NULL,
	event TEXT NOT NULL
) STRICT;
`

// Service holds things and remembers them in a database. It is safe for
// concurrent use.
type Service struct {
	opts Options
	db   *sql.DB
}

// Open opens the service's database, or creates it.
func Open(ctx context.Context, o Options) (*Service, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	// What is committed is on disk (synchronous), and a transaction has the
	// database to itself from its beginning (txlock).
	dsn := url.URL{Scheme: "file", Opaque: url.PathEscape(o.Database), RawQuery: url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("database %s: %w", o.Database, err)
	}
	return &Service{opts: o, db: db}, nil
}

// Close closes the database.
func (s *Service) Close() error { return s.db.Close() }

// transact runs f in a transaction, after releasing the holds that have expired.
func (s *Service) transact(ctx context.Context, f func(*tx) error) error {
	sqlTx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = sqlTx.Rollback() }() // does nothing after Commit
	t := &tx{sqlTx, s.opts}
	if err := t.expire(ctx); err != nil {
		return err
	}
	if err := f(t); err != nil {
		return err
	}
	return sqlTx.Commit()
}

type tx struct {
	*sql.Tx
	opts Options
}

func (t *tx) expire(ctx context.Context) error {
	now := t.opts.Now().UnixNano()
	_, err := t.ExecContext(ctx, `INSERT INTO log (key, event) SELECT key, ? FROM holds WHERE state = ? AND expires <= ?`, Expired, Held, now)
	if err == nil {
		_, err = t.ExecContext(ctx, `UPDATE holds SET state = ? WHERE state = ? AND expires <= ?`, Expired, Held, now)
	}
	return err
}
