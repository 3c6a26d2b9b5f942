package service

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the database, in Go
)

// Options configure a service.
type Options struct {
	// Database is the file of the database. It is created if it is missing.
	Database string
	// Price is what one unit costs, in cents.
	Price int
	// Capacity is how many units there are of each item.
	Capacity int
	// Lifetime is how long a hold lasts unless it is confirmed or released.
	Lifetime time.Duration
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// The log has a line for each change of a hold, which shows that nothing happened twice.
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
CREATE TABLE IF NOT EXISTS asked (
	key      TEXT PRIMARY KEY,
	callback TEXT NOT NULL
) STRICT;
`

// Service holds things and remembers them in a database. It is safe for concurrent use.
type Service struct {
	opts Options
	db   *sql.DB
}

// Open opens the service's database, or creates it.
func Open(ctx context.Context, o Options) (*Service, error) {
	if o.Database == "" || o.Price <= 0 || o.Capacity <= 0 || o.Lifetime <= 0 {
		return nil, errors.New("a service needs a database, and a price, a capacity and a lifetime above 0")
	}
	if o.Now == nil {
		o.Now = time.Now
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

// transact runs f in a transaction, after the holds that have expired are marked. It gets the hold with a key; nil is none.
func (s *Service) transact(ctx context.Context, key string, f func(t *sql.Tx, found *Hold) error) error {
	t, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }() // does nothing after Commit
	now := s.opts.Now().UnixNano()
	_, err = t.ExecContext(ctx, `INSERT INTO log (key, event) SELECT key, ? FROM holds WHERE state = ? AND expires <= ?`, Expired, Held, now)
	if err == nil {
		_, err = t.ExecContext(ctx, `UPDATE holds SET state = ? WHERE state = ? AND expires <= ?`, Expired, Held, now)
	}
	var found *Hold
	if err == nil {
		found, err = find(ctx, t, key)
	}
	if err == nil {
		err = f(t, found)
	}
	if err != nil {
		return err
	}
	return t.Commit()
}

const selectHolds = `SELECT key, item, units, reference, amount, state, kept, expires FROM holds`

func scan(into func(...any) error) (h Hold, err error) {
	var expires int64
	err = into(&h.Key, &h.Item, &h.Units, &h.Reference, &h.Amount, &h.State, &h.Kept, &expires)
	h.Expires = time.Unix(0, expires).UTC()
	return h, err
}

// List returns all holds there ever were.
func (s *Service) List(ctx context.Context) ([]Hold, error) {
	list := []Hold{}
	err := s.transact(ctx, "", func(t *sql.Tx, _ *Hold) error {
		rows, err := t.QueryContext(ctx, selectHolds+` ORDER BY rowid`)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			h, err := scan(rows.Scan)
			if err != nil {
				return err
			}
			list = append(list, h)
		}
		return rows.Err()
	})
	return list, err
}

// find returns nil if there is no hold with that key.
func find(ctx context.Context, t *sql.Tx, key string) (*Hold, error) {
	h, err := scan(t.QueryRowContext(ctx, selectHolds+` WHERE key = ?`, key).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &h, err
}

// save writes a hold that is new or has changed, and what happened to it.
func save(ctx context.Context, t *sql.Tx, h Hold, event string) error {
	_, err := t.ExecContext(ctx, `INSERT INTO holds (key, item, units, reference, amount, state, kept, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET amount = excluded.amount, state = excluded.state, kept = excluded.kept`,
		h.Key, h.Item, h.Units, h.Reference, h.Amount, h.State, h.Kept, h.Expires.UnixNano())
	if err == nil {
		_, err = t.ExecContext(ctx, `INSERT INTO log (key, event) VALUES (?, ?)`, h.Key, event)
	}
	return err
}
