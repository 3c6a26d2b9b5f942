package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// columns are those of a record, in the order that scan reads them in.
const columns = `key, rev, queue, owner, body, wake, keep`

// scan reads a record. More are columns after those of the record.
func scan(row pgx.Row, more ...any) (*ledger.Record, error) {
	var (
		r                 ledger.Record
		rev               int64
		key, queue, owner []byte
		wake, keep        *time.Time
	)
	if err := row.Scan(append([]any{&key, &rev, &queue, &owner, &r.Body, &wake, &keep}, more...)...); err != nil {
		return nil, err
	}
	r.Key, r.Rev, r.Queue, r.Owner = string(key), uint64(rev), string(queue), string(owner)
	if wake != nil {
		r.Wake = wake.UTC()
	}
	if keep != nil {
		r.Keep = keep.UTC()
	}
	return &r, nil
}

// read makes a request that changes nothing. If the connection turns out to be broken, as
// all are after the database was restarted, it is made once more on another.
func (s *store) read(ctx context.Context, what string, request func(ctx context.Context) error) error {
	within, cancel := s.bound(ctx)
	defer cancel()
	answered := func(err error) bool { return err == nil || errors.Is(err, ledger.ErrNotFound) }
	err := request(within)
	if !answered(err) && within.Err() == nil && broken(err) {
		s.pool.Reset() // the others are no better
		err = request(within)
	}
	if answered(err) {
		return err
	}
	return s.failed(ctx, what, err)
}

// broken says whether an error is about the connection rather than the request.
func broken(err error) bool {
	var said *pgconn.PgError
	var connect *pgconn.ConnectError
	var unusable unusable
	switch {
	case errors.As(err, &connect), errors.As(err, &unusable):
		return false // another would be no better
	case errors.As(err, &said):
		return !certain(said) || said.Code == readOnly
	}
	return !errors.Is(err, pgx.ErrNoRows) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

func (s *store) Load(ctx context.Context, key string) (r *ledger.Record, err error) {
	err = s.read(ctx, "load a record", func(ctx context.Context) error {
		r, err = scan(s.pool.QueryRow(ctx, `SELECT `+columns+` FROM mcpsaga_ledger.records WHERE key = $1::bytea`, []byte(key)))
		if errors.Is(err, pgx.ErrNoRows) {
			return ledger.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s *store) Items(ctx context.Context, key string, after uint64, limit int) (items []ledger.Item, err error) {
	if after > math.MaxInt64 {
		return nil, nil
	}
	err = s.read(ctx, "load items", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `SELECT n, body FROM mcpsaga_ledger.items WHERE key = $1::bytea AND n > $2::bigint ORDER BY n LIMIT $3::bigint`,
			[]byte(key), int64(after), int64(max(0, limit)))
		if err != nil {
			return err
		}
		items, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i ledger.Item, err error) {
			var n int64
			err = row.Scan(&n, &i.Body)
			i.N = uint64(n)
			return i, err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

func (s *store) List(ctx context.Context, queues []string, after string, limit int) ([]*ledger.Record, error) {
	return s.records(ctx, "list records", `queue = ANY ($1::bytea[]) AND wake IS NOT NULL`, queues, after, limit)
}

func (s *store) Owned(ctx context.Context, owners []string, after string, limit int) ([]*ledger.Record, error) {
	return s.records(ctx, "list an owner's records", `owner = ANY ($1::bytea[])`, owners, after, limit)
}

// records returns those of which a condition on names holds, in the order of their keys.
func (s *store) records(ctx context.Context, what, condition string, names []string, after string, limit int) (list []*ledger.Record, err error) {
	err = s.read(ctx, what, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `SELECT `+columns+` FROM mcpsaga_ledger.records
WHERE `+condition+` AND key > $2::bytea ORDER BY key LIMIT $3::bigint`, byteas(names), []byte(after), int64(max(0, limit)))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*ledger.Record, error) { return scan(row) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (s *store) Count(ctx context.Context, owner string, most int) (n int, err error) {
	err = s.read(ctx, "count records", func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT FROM mcpsaga_ledger.records WHERE owner = $1::bytea LIMIT $2::bigint) AS found`,
			[]byte(owner), int64(max(0, most))).Scan(&n)
	})
	return n, err
}

func (s *store) Now(ctx context.Context) (at time.Time, err error) {
	err = s.read(ctx, "read the clock", func(ctx context.Context) error {
		at, err = now(ctx, s.pool)
		return err
	})
	return at, err
}

// unusable says why a database cannot be used that can be reached.
type unusable string

func (u unusable) Error() string { return string(u) }

// now reads the server's clock, and fails if the server cannot be written.
func now(ctx context.Context, conn querier) (at time.Time, err error) {
	var fixed bool
	if err := conn.QueryRow(ctx, `SELECT clock_timestamp(), current_setting('transaction_read_only')::bool`).Scan(&at, &fixed); err != nil {
		return at, fmt.Errorf("ledger/postgres: ask the database for the time: %w", err)
	}
	if fixed {
		return at, unusable("ledger/postgres: the database can only be read: it is a standby, or the role or the database is set so; give the address of the primary (several hosts with target_session_attrs=read-write find it)")
	}
	return at.UTC(), nil
}

func (s *store) Forget(ctx context.Context, limit int) (int, error) {
	within, cancel := s.bound(ctx)
	defer cancel()
	// Records that somebody is just writing are left for the next time.
	tag, err := s.pool.Exec(within, `DELETE FROM mcpsaga_ledger.records WHERE key = ANY (ARRAY (
SELECT key FROM mcpsaga_ledger.records WHERE keep < (SELECT clock_timestamp()) ORDER BY keep LIMIT $1::bigint FOR UPDATE SKIP LOCKED))`, int64(max(0, limit)))
	if err != nil {
		return 0, s.failed(ctx, "forget records", err)
	}
	return int(tag.RowsAffected()), nil
}

// byteas are strings as parameters of the type bytea[].
func byteas(list []string) [][]byte {
	b := make([][]byte, len(list))
	for i, s := range list {
		b[i] = []byte(s)
	}
	return b
}
