package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// The floor writes down a start, two checkpoints and an end: four updates of a small row, one after
// the other, each on the disk before the next.
const floorWrites = 4

const updateRow = `UPDATE plain SET rev = rev + 1, body = $2 WHERE key = $1`

// floorBody are about as many bytes as the others write.
var floorBody = make([]byte, 256)

type postgresFloor struct{ pool *pgxpool.Pool }

func openPostgresFloor(ctx context.Context, at place) (worker, error) {
	pool, err := pgxpool.New(ctx, at.Target+fmt.Sprintf(" pool_max_conns=%d", most))
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS plain (key bigint PRIMARY KEY, rev bigint, body bytea)`); err != nil {
		return nil, err
	}
	for key := range most {
		if _, err := pool.Exec(ctx, `INSERT INTO plain VALUES ($1, 1, $2) ON CONFLICT DO NOTHING`, key, floorBody); err != nil {
			return nil, err
		}
	}
	return postgresFloor{pool}, nil
}

func (f postgresFloor) Do(ctx context.Context, caller int) error {
	for range floorWrites {
		tag, err := f.pool.Exec(ctx, updateRow, caller, floorBody)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return errors.New("an update found no row")
		}
	}
	return nil
}

func (f postgresFloor) Close() { f.pool.Close() }

// sqliteFloor has one goroutine write: what waits while it writes goes into its next
// transaction together.
type sqliteFloor struct {
	db    *sql.DB
	stmt  *sql.Stmt
	asked chan update
	ended chan struct{}
}

type update struct {
	key  int
	done chan error
}

// groupMost is how many updates share a transaction at most.
const groupMost = 256

// sqliteURL is that of a file in which what is committed is on the disk.
func sqliteURL(path string) string {
	set := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}}
	return "file:" + path + "?" + set.Encode()
}

func openSQLiteFloor(ctx context.Context, at place) (worker, error) {
	db, err := sql.Open("sqlite", sqliteURL(at.Target))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS plain (key INTEGER PRIMARY KEY, rev INTEGER, body BLOB)`); err != nil {
		return nil, err
	}
	for key := range most {
		if _, err := db.ExecContext(ctx, `INSERT INTO plain VALUES ($1, 1, $2) ON CONFLICT DO NOTHING`, key, floorBody); err != nil {
			return nil, err
		}
	}
	stmt, err := db.PrepareContext(ctx, updateRow)
	if err != nil {
		return nil, err
	}
	f := &sqliteFloor{db, stmt, make(chan update, groupMost), make(chan struct{})}
	go f.write()
	return f, nil
}

func (f *sqliteFloor) write() {
	defer close(f.ended)
	for u := range f.asked {
		group := []update{u}
		for full := false; !full && len(group) < groupMost; {
			select {
			case u, open := <-f.asked:
				if full = !open; open {
					group = append(group, u)
				}
			default:
				full = true
			}
		}
		err := f.commit(group)
		for _, u := range group {
			u.done <- err
		}
	}
}

func (f *sqliteFloor) commit(group []update) error {
	tx, err := f.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	stmt := tx.Stmt(f.stmt)
	for _, u := range group {
		if _, err := stmt.Exec(u.key, floorBody); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (f *sqliteFloor) Do(_ context.Context, caller int) error {
	done := make(chan error, 1)
	for range floorWrites {
		f.asked <- update{caller, done}
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

func (f *sqliteFloor) Close() {
	close(f.asked)
	<-f.ended
	_ = f.db.Close()
}
