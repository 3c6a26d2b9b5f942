package sqleffect_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sqleffect"
)

type stay struct {
	City string `json:"city"`
}

type hold struct {
	Room int64 `json:"room"`
}

// onEach runs a test on every database.
func onEach(t *testing.T, test func(t *testing.T, k *sqleffect.Keys)) {
	for name, open := range map[string]func(t *testing.T) *sql.DB{
		"SQLite": func(t *testing.T) *sql.DB {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
			require.NoError(t, err)
			return db
		},
		"PostgreSQL": func(t *testing.T) *sql.DB {
			db, err := sql.Open("pgx", postgrestest.Run(t, "fsync=off").DSN())
			require.NoError(t, err)
			return db
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			t.Cleanup(func() { assert.NoError(t, db.Close()) })
			k := &sqleffect.Keys{DB: db, Postgres: name == "PostgreSQL"}
			var all sync.WaitGroup
			for range 4 { // replicas that start at once
				all.Go(func() { assert.NoError(t, k.Create(t.Context())) })
			}
			all.Wait()
			_, err := db.Exec(`CREATE TABLE holds (room INTEGER, city TEXT)`)
			require.NoError(t, err)
			test(t, k)
		})
	}
}

// rooms returns the table that the effects act on.
func rooms(t *testing.T, k *sqleffect.Keys) (n int) {
	t.Helper()
	require.NoError(t, k.DB.QueryRow(`SELECT count(*) FROM holds`).Scan(&n))
	return n
}

func place(ctx context.Context, tx *sql.Tx, in stay) (hold, error) {
	h := hold{Room: 1<<60 + 1} // beyond what floating point keeps
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO holds (room, city) VALUES (%d, '%s')`, 7, in.City))
	return h, err
}

func remove(ctx context.Context, tx *sql.Tx, h hold) error {
	if h.Room != 1<<60+1 {
		return fmt.Errorf("it got %+v", h)
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM holds`)
	return err
}

// What the engine records is recorded here as well.
func TestDurations(t *testing.T) {
	type nights struct {
		Stay time.Duration `json:"stay"`
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	k := &sqleffect.Keys{DB: db}
	require.NoError(t, k.Create(t.Context()))
	in := nights{36 * time.Hour}
	for range 2 { // done, and found by its key
		out, err := sqleffect.Do(t.Context(), k, "a", in, func(_ context.Context, _ *sql.Tx, in nights) (nights, error) { return in, nil })
		require.NoError(t, err)
		assert.Equal(t, in, out)
	}
	var undone nights
	require.NoError(t, sqleffect.Undo(t.Context(), k, "a", func(_ context.Context, _ *sql.Tx, out nights) error {
		undone = out
		return nil
	}))
	assert.Equal(t, in, undone)
}

func TestKeys(t *testing.T) {
	onEach(t, func(t *testing.T, k *sqleffect.Keys) {
		ctx, rome := t.Context(), stay{"Rome"}
		do := func(key saga.Key, in stay) (hold, error) { return sqleffect.Do(ctx, k, key, in, place) }
		undo := func(key saga.Key) error { return sqleffect.Undo(ctx, k, key, remove) }
		finish := func(key saga.Key) error {
			tx, err := k.DB.Begin()
			require.NoError(t, err)
			err = k.Finish(ctx, tx, key)
			return errors.Join(err, tx.Commit())
		}

		// Once per key, and the first result.
		first, err := do("a", rome)
		require.NoError(t, err)
		again, err := do("a", rome)
		require.NoError(t, err)
		assert.Equal(t, first, again)
		assert.Equal(t, 1, rooms(t, k))
		_, err = do("a", stay{"Oslo"})
		assert.ErrorIs(t, err, sqleffect.ErrOtherInput)
		assertSettled(t, err)

		// Undone once, and never done again.
		require.NoError(t, undo("a"))
		assert.Equal(t, 0, rooms(t, k))
		_, err = do("b", rome)
		require.NoError(t, err)
		require.NoError(t, undo("a"), "the undo is repeated")
		assert.Equal(t, 1, rooms(t, k), "and touches nothing")
		_, err = do("a", rome)
		assert.ErrorIs(t, err, sqleffect.ErrReleased)
		assertSettled(t, err)

		// Undone before it was done.
		require.NoError(t, undo("late"))
		_, err = do("late", rome)
		assert.ErrorIs(t, err, sqleffect.ErrReleased)
		assert.Equal(t, 1, rooms(t, k))

		// Final is final.
		require.NoError(t, finish("b"))
		require.NoError(t, finish("b"), "again")
		assert.ErrorIs(t, undo("b"), sqleffect.ErrFinal)
		assert.Equal(t, 1, rooms(t, k))
		same, err := do("b", rome)
		require.NoError(t, err)
		assert.Equal(t, first, same)
		for key, want := range map[saga.Key]error{"a": sqleffect.ErrReleased, "never": sqleffect.ErrUnknownKey} {
			err := finish(key)
			assert.ErrorIs(t, err, want)
			assertSettled(t, err)
		}

		// What fails changes nothing, and the key stays free.
		fail := errors.New("no room is free")
		_, err = sqleffect.Do(ctx, k, "c", rome, func(ctx context.Context, tx *sql.Tx, in stay) (hold, error) {
			_, err := place(ctx, tx, in)
			return hold{}, errors.Join(err, fail)
		})
		assert.ErrorIs(t, err, fail)
		assert.Equal(t, 1, rooms(t, k))
		_, err = do("c", rome)
		require.NoError(t, err)
		err = sqleffect.Undo(ctx, k, "c", func(ctx context.Context, tx *sql.Tx, h hold) error { return errors.Join(remove(ctx, tx, h), fail) })
		assert.ErrorIs(t, err, fail)
		assert.Equal(t, 2, rooms(t, k), "the undo was rolled back")
		require.NoError(t, undo("c"))

		// What is forgotten is as if it had never been.
		n, err := k.Forget(ctx, time.Now().Add(-time.Minute))
		require.NoError(t, err)
		assert.Zero(t, n)
		n, err = k.Forget(ctx, time.Now().Add(time.Minute))
		require.NoError(t, err)
		assert.Equal(t, int64(4), n, "a, b, late, c")
		_, err = do("a", rome)
		assert.NoError(t, err)
	})
}

// assertSettled asserts that the engine does not try again: a saga performs an effect
// that fails so, and it is called once.
func assertSettled(t *testing.T, cause error) {
	t.Helper()
	calls := 0
	e := &saga.Effect[stay, hold]{Name: "e", Do: func(context.Context, saga.Key, stay) (hold, error) {
		calls++
		return hold{}, cause
	}}
	tool, err := saga.Flow[struct{}, string]{Info: saga.Info{Name: "f", Effects: []saga.Declared{e}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		_, err := saga.Do(r, e, stay{})
		return "", err
	}}.Compile()
	require.NoError(t, err)
	_, _ = tool.Start(t.Context(), engine.Call{})
	assert.Equal(t, 1, calls, "%v is tried again", cause)
}

// Many at once with one key: one acts, all have its result. And an undo that comes in
// between leaves nothing.
func TestKeysAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, k *sqleffect.Keys) {
		for round := range 5 {
			key := saga.Key(fmt.Sprint("k", round))
			before := rooms(t, k)
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					h, err := sqleffect.Do(t.Context(), k, key, stay{"Rome"}, place)
					assert.NoError(t, err)
					assert.Equal(t, hold{1<<60 + 1}, h)
				})
			}
			all.Wait()
			assert.Equal(t, before+1, rooms(t, k))
		}
		_, err := k.DB.Exec(`DELETE FROM holds`)
		require.NoError(t, err)
		for round := range 10 {
			key := saga.Key(fmt.Sprint("u", round))
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					if _, err := sqleffect.Do(t.Context(), k, key, stay{"Rome"}, place); err != nil {
						assert.ErrorIs(t, err, sqleffect.ErrReleased)
					}
				})
				all.Go(func() { assert.NoError(t, sqleffect.Undo(t.Context(), k, key, remove)) })
			}
			all.Wait()
			assert.Equal(t, 0, rooms(t, k))
		}
	})
}

// A function that ends the transaction is an author's mistake, which is named, and its key can
// still be undone.
func TestEnded(t *testing.T) {
	onEach(t, func(t *testing.T, k *sqleffect.Keys) {
		ctx := t.Context()
		var fails error
		const errEnded = "it must call neither Commit nor Rollback"
		end := (*sql.Tx).Commit
		do := func(key saga.Key) error {
			_, err := sqleffect.Do(ctx, k, key, stay{"Rome"}, func(ctx context.Context, tx *sql.Tx, in stay) (hold, error) {
				h, err := place(ctx, tx, in)
				return h, errors.Join(err, end(tx), fails)
			})
			return err
		}
		undo := func(key saga.Key) error {
			return sqleffect.Undo(ctx, k, key, func(ctx context.Context, tx *sql.Tx, h hold) error {
				assert.Zero(t, h, "its result was not recorded")
				_, err := tx.ExecContext(ctx, `DELETE FROM holds`)
				return err
			})
		}
		for key, cause := range map[saga.Key]error{"well": nil, "badly": saga.Refused(errors.New("no room is free"))} {
			fails = cause
			err := do(key)
			assert.ErrorContains(t, err, errEnded)
			if cause != nil {
				assert.ErrorContains(t, err, "no room is free")
				assert.NotErrorIs(t, err, fails, "the engine would take it that nothing was done")
			}
			assert.ErrorContains(t, do(key), errEnded, "again")
			assert.Equal(t, 1, rooms(t, k), "it was committed, once")
			require.NoError(t, undo(key))
			assert.Zero(t, rooms(t, k))
			assert.ErrorIs(t, do(key), sqleffect.ErrReleased)
		}
		fails, end = nil, (*sql.Tx).Rollback
		assert.ErrorContains(t, do("back"), errEnded)
		assert.Zero(t, rooms(t, k))
		end = func(*sql.Tx) error { return nil }
		assert.NoError(t, do("back"), "the key is free")
		assert.ErrorContains(t, sqleffect.Undo(ctx, k, "back", func(_ context.Context, tx *sql.Tx, _ hold) error { return tx.Commit() }), errEnded)
		assert.NoError(t, undo("back"), "it counts as undone")
	})
}

// SQLite ends the transaction at some statements that fail. A function that goes on then has the rest committed
// statement by statement: once, and the key can be undone.
func TestEndedBySQLite(t *testing.T) {
	for name, statement := range map[string]string{
		"interrupted": `INSERT INTO visitors WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c LIMIT 100000000) SELECT n FROM c`,
		"conflict":    `INSERT INTO visitors VALUES ('Ann')`,
	} {
		t.Run(name, func(t *testing.T) {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, db.Close()) })
			k := &sqleffect.Keys{DB: db}
			require.NoError(t, k.Create(t.Context()))
			_, err = db.Exec(`CREATE TABLE holds (room INTEGER, city TEXT); CREATE TABLE visitors (name TEXT UNIQUE ON CONFLICT ROLLBACK); INSERT INTO visitors VALUES ('Ann')`)
			require.NoError(t, err)
			goesOn, most := true, time.Minute
			if name == "interrupted" {
				most = 200 * time.Millisecond
			}
			do := func() error {
				_, err := sqleffect.Do(t.Context(), k, "k", stay{"Rome"}, func(ctx context.Context, tx *sql.Tx, in stay) (hold, error) {
					short, cancel := context.WithTimeout(ctx, most)
					defer cancel()
					if _, err := tx.ExecContext(short, statement); err != nil && !goesOn {
						return hold{}, err
					}
					return place(ctx, tx, in)
				})
				return err
			}
			for range 3 { // as the engine tries
				assert.ErrorContains(t, do(), "return the error of every statement")
				assert.Equal(t, 1, rooms(t, k))
			}
			require.NoError(t, sqleffect.Undo(t.Context(), k, "k", func(ctx context.Context, tx *sql.Tx, _ hold) error {
				_, err := tx.ExecContext(ctx, `DELETE FROM holds`)
				return err
			}))
			assert.ErrorIs(t, do(), sqleffect.ErrReleased)
			assert.Zero(t, rooms(t, k))

			_, err = db.Exec(`DELETE FROM saga_keys`)
			require.NoError(t, err)
			goesOn = false
			for range 2 {
				assert.NotContains(t, fmt.Sprint(do()), "sqleffect:", "a function that returns the error is not to blame")
			}
			assert.Zero(t, rooms(t, k))
		})
	}
}

// A secret would be kept as null, in silence.
func TestSecretsAreRefused(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	k := &sqleffect.Keys{DB: db}
	require.NoError(t, k.Create(t.Context()))
	type with struct{ S []saga.Secret }
	secret := with{[]saga.Secret{saga.NewSecret("x")}}
	_, err = sqleffect.Do(t.Context(), k, "in", secret, func(context.Context, *sql.Tx, with) (hold, error) { return hold{}, nil })
	assert.ErrorContains(t, err, "saga.Secret")
	_, err = sqleffect.Do(t.Context(), k, "out", stay{}, func(context.Context, *sql.Tx, stay) (with, error) { return secret, nil })
	assert.ErrorContains(t, err, "saga.Secret")
	assertSettled(t, err)
}

func TestMisuse(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer db.Close()
	for want, k := range map[string]*sqleffect.Keys{
		"no DB":              {},
		"no name of a table": {DB: db, Table: "x; DROP TABLE users"},
	} {
		assert.ErrorContains(t, k.Create(t.Context()), want)
		_, err := sqleffect.Do(t.Context(), k, "k", stay{}, place)
		assert.ErrorContains(t, err, want)
		_, err = k.Forget(t.Context(), time.Time{})
		assert.ErrorContains(t, err, want)
	}
}
