package sqleffect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Do performs f once for the key: f changes your tables in a transaction, and what it
// returns is kept with the key in the same transaction. When the key comes again, f is
// not called, and Do returns what it returned the first time. Callers with the same
// key wait for each other.
//
// A key that was released or that comes with another input is refused, by an error
// that wraps [ErrReleased] or [ErrOtherInput] within [saga.Refused]. If f fails,
// nothing is changed and the key is free. Any other error leaves open what happened;
// the engine calls again with the same key. If f ends the transaction itself, Do fails
// with an error that says so, and so it does for a key whose result was not recorded because of that.
// f has to return the error of every statement that fails: SQLite may have rolled back
// the transaction with it, and what f does after that is not undone when f fails.
//
// in and the result are recorded as JSON, in as a digest. They must not hold a
// [saga.Secret], which JSON would lose.
func Do[In, Out any](ctx context.Context, k *Keys, key saga.Key, in In, f func(context.Context, *sql.Tx, In) (Out, error)) (out Out, err error) {
	input, err := encode(in)
	if err != nil {
		return out, saga.Refused(fmt.Errorf("the effect's input: %w", err))
	}
	digest := sha256.Sum256(input)
	mark := base64.RawURLEncoding.EncodeToString(digest[:])
	err = k.transact(ctx, func(tx *sql.Tx) error {
		// The insertion waits for others with the same key.
		if fresh, err := k.claim(ctx, tx, key, stateDone, mark); err != nil {
			return err
		} else if !fresh {
			r, err := k.find(ctx, tx, key)
			switch {
			case err != nil:
				return err
			case r.state == stateReleased:
				return saga.Refused(ErrReleased)
			case r.input != mark:
				return saga.Refused(ErrOtherInput)
			case r.output == "":
				return errEnded
			}
			return decode(r.output, &out)
		}
		if out, err = f(ctx, tx, in); err != nil {
			return err
		}
		output, err := encode(out)
		if err != nil {
			return saga.Refused(fmt.Errorf("the effect's result: %w", err))
		}
		recorded, err := k.exec(ctx, tx, `UPDATE {keys} SET output = ? WHERE key = ?`, string(output), string(key))
		if err != nil || recorded {
			return err
		}
		// SQLite has rolled the transaction back at a statement that failed, and committed the later
		// ones each by itself, as it does this one: the key is then as if f had committed.
		_, err = k.claim(ctx, tx, key, stateDone, mark)
		return errors.Join(errEnded, err)
	})
	if err != nil {
		return *new(Out), err
	}
	return out, nil
}

// Undo reverses with f what [Do] did under the key, and sees to it that it is not done
// again, nor later if it was not done: then f is not called. f gets what Do returned,
// or the zero value if its function ended the transaction and what it did was committed: f then
// has to find out by the key what there is to undo. What was undone before stays so, and
// f is not called again.
//
// If the key was made final, Undo fails with ErrFinal, wrapped by [saga.Final].
func Undo[Out any](ctx context.Context, k *Keys, key saga.Key, f func(context.Context, *sql.Tx, Out) error) error {
	return k.transact(ctx, func(tx *sql.Tx) error {
		if barred, err := k.claim(ctx, tx, key, stateReleased, ""); err != nil || barred {
			return err
		}
		released, err := k.leave(ctx, tx, key, stateReleased)
		if err != nil {
			return err
		}
		r, err := k.find(ctx, tx, key)
		switch {
		case err != nil:
			return err
		case r.state == stateFinal:
			return saga.Final(ErrFinal)
		case !released:
			return nil
		}
		var out Out
		if r.output != "" {
			if err := decode(r.output, &out); err != nil {
				return err
			}
		}
		return f(ctx, tx, out)
	})
}

// transact runs f in a transaction that is rolled back if f fails. If f has ended it before, that f refuses does not
// mean that nothing was done.
func (k *Keys) transact(ctx context.Context, f func(*sql.Tx) error) error {
	if err := k.check(); err != nil {
		return err
	}
	tx, err := k.DB.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("the table of keys: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	failed, end := f(tx), tx.Commit
	if failed != nil {
		end = tx.Rollback
	}
	ended := end()
	switch {
	case !errors.Is(ended, sql.ErrTxDone) || ctx.Err() != nil: // a context that ends has it rolled back
		return cmp.Or(failed, ended)
	case failed == nil || errors.Is(failed, sql.ErrTxDone):
		return errEnded
	}
	return fmt.Errorf("%w (it failed: %v)", errEnded, failed) // not wrapped: it may be a refusal
}

var errSecret = errors.New("it holds a saga.Secret, which would be lost; keep it out, or encrypt it yourself")

// durations are numbers of nanoseconds, as in states and in what the engine records.
var durations = jsonv1.FormatDurationAsNano(true)

var encoding = jsonv2.JoinOptions(jsonv2.Deterministic(true), durations,
	jsonv2.WithMarshalers(jsonv2.MarshalFunc(func(saga.Secret) ([]byte, error) { return nil, errSecret })))

func encode(v any) ([]byte, error) { return jsonv2.Marshal(v, encoding) }

func decode[T any](text string, into *T) error {
	if err := jsonv2.Unmarshal([]byte(text), into, durations); err != nil {
		return fmt.Errorf("the effect's recorded result: %w", err)
	}
	return nil
}
