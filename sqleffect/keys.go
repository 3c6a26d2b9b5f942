package sqleffect

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Keys is a table of keys in a database. Its methods, [Do] and [Undo] are safe for
// concurrent use, by several processes too.
type Keys struct {
	// DB is the database in which the effects act.
	DB *sql.DB
	// Postgres says that the database is PostgreSQL; otherwise it is SQLite.
	Postgres bool
	// Table is the name of the table, with that of a schema if need be; "saga_keys"
	// if it is empty.
	Table string
}

// Why a key is refused. Errors of this package wrap them; test with errors.Is. What saga.Do returns wraps those that are in
// the Fails of the effect.
var (
	// ErrReleased: what was done under the key was undone, or was undone before it
	// was done. It is not done again.
	ErrReleased = errors.New("this key was released")
	// ErrOtherInput: something else was done under the key. A client has used one
	// token twice, with different answers.
	ErrOtherInput = errors.New("this key was used with another input")
	// ErrFinal: what was done under the key has been made final.
	ErrFinal = errors.New("what was done under this key is final")
	// ErrUnknownKey: nothing was done under the key.
	ErrUnknownKey = errors.New("nothing was done under this key")
)

// errEnded: the function that got the transaction has ended it, or gone on after SQLite had ended it.
var errEnded = errors.New("sqleffect: the transaction ended before the function did: it must call neither Commit nor Rollback, and return the error of every statement")

// What became of a key.
const (
	stateDone     = "done"
	stateReleased = "released"
	stateFinal    = "final"
)

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// createTries is how often Create tries, for about three seconds in all: SQLite refuses
// some of those that open a new database at the same moment, whatever their busy_timeout.
const createTries = 8

// Create creates the table unless it exists. Replicas may do so at once.
func (k *Keys) Create(ctx context.Context) error {
	if err := k.check(); err != nil {
		return err
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, k.create(ctx) },
		backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: 25 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: time.Second}),
		backoff.WithMaxTries(createTries))
	return err
}

func (k *Keys) create(ctx context.Context) error {
	_, err := k.DB.ExecContext(ctx, k.query(`CREATE TABLE IF NOT EXISTS {keys} (
		key    TEXT PRIMARY KEY,
		state  TEXT NOT NULL,
		input  TEXT NOT NULL,
		output TEXT NOT NULL,
		since  BIGINT NOT NULL
	)`))
	if err == nil {
		return nil
	}
	// Others may be creating it at this moment; PostgreSQL then fails.
	var n int
	if k.DB.QueryRowContext(ctx, k.query(`SELECT count(*) FROM {keys} WHERE key = ?`), "").Scan(&n) == nil {
		return nil
	}
	return fmt.Errorf("creating the table of keys: %w", err)
}

// Forget removes the keys on which nothing has happened since before. They are then
// as if they had never been used: do not forget a key as long as a saga that knows it
// can go on or be undone, which is the tool's MaxAge (or, without one, for as long as
// clients are quick enough each time) and the server's UndoGrace together. It returns
// how many it removed.
func (k *Keys) Forget(ctx context.Context, before time.Time) (int64, error) {
	if err := k.check(); err != nil {
		return 0, err
	}
	result, err := k.DB.ExecContext(ctx, k.query(`DELETE FROM {keys} WHERE since < ?`), before.Unix())
	if err != nil {
		return 0, fmt.Errorf("forgetting keys: %w", err)
	}
	return result.RowsAffected()
}

// Finish makes what was done under a key final, within the transaction of what makes
// it so, such as a payment: from then on [Undo] fails with [saga.Final]. It fails with
// ErrReleased or ErrUnknownKey, wrapped by [saga.Refused], if there is nothing that
// could be made final. A key that is final already stays so.
func (k *Keys) Finish(ctx context.Context, tx *sql.Tx, key saga.Key) error {
	if err := k.check(); err != nil {
		return err
	}
	changed, err := k.leave(ctx, tx, key, stateFinal)
	if err != nil || changed {
		return err
	}
	row, err := k.find(ctx, tx, key)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return saga.Refused(ErrUnknownKey)
	case err != nil:
		return err
	case row.state == stateReleased:
		return saga.Refused(ErrReleased)
	}
	return nil
}

func (k *Keys) check() error {
	switch {
	case k.DB == nil:
		return errors.New("sqleffect: Keys has no DB")
	case k.Table != "" && !tableName.MatchString(k.Table):
		return fmt.Errorf("sqleffect: %q is no name of a table", k.Table)
	}
	return nil
}

// query puts the table's name into a statement and numbers its parameters.
func (k *Keys) query(text string) string {
	text = strings.ReplaceAll(text, "{keys}", cmp.Or(k.Table, "saga_keys"))
	for n := 1; k.Postgres && strings.Contains(text, "?"); n++ {
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", n), 1)
	}
	return text
}

// claim inserts a key, and reports false if it is there already.
func (k *Keys) claim(ctx context.Context, tx *sql.Tx, key saga.Key, state, input string) (bool, error) {
	return k.exec(ctx, tx, `INSERT INTO {keys} (key, state, input, output, since) VALUES (?, ?, ?, '', ?) ON CONFLICT (key) DO NOTHING`,
		string(key), state, input, time.Now().Unix())
}

// leave changes the state of a key that is done, and reports false if it is not.
func (k *Keys) leave(ctx context.Context, tx *sql.Tx, key saga.Key, state string) (bool, error) {
	return k.exec(ctx, tx, `UPDATE {keys} SET state = ?, since = ? WHERE key = ? AND state = ?`, state, time.Now().Unix(), string(key), stateDone)
}

// exec reports whether a statement changed a row.
func (k *Keys) exec(ctx context.Context, tx *sql.Tx, text string, args ...any) (bool, error) {
	result, err := tx.ExecContext(ctx, k.query(text), args...)
	if err != nil {
		return false, fmt.Errorf("the table of keys: %w", err)
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

type row struct{ state, input, output string }

func (k *Keys) find(ctx context.Context, tx *sql.Tx, key saga.Key) (r row, err error) {
	err = tx.QueryRowContext(ctx, k.query(`SELECT state, input, output FROM {keys} WHERE key = ?`), string(key)).Scan(&r.state, &r.input, &r.output)
	if err != nil {
		err = fmt.Errorf("the table of keys: %w", err)
	}
	return r, err
}
