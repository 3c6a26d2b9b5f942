package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	// grace is how long an answer is waited for after the caller has given up. To cut it off costs the
	// connection, and leaves it unknown what a write has done.
	grace = time.Second
	// writers is how many transactions of one process are under way at once. Meanwhile changes gather, and
	// go together in the next one: a commit costs the same for one and for a hundred.
	writers = 2
	// mostTogether go into one transaction, unless they have more than mostBytes.
	mostTogether = 128
	mostBytes    = 1 << 20
)

// A request is what is done on a connection of the pool.
type request func(ctx context.Context, conn *pgxpool.Conn) error

// read makes a request that changes nothing. If the connection turns out to be broken, as
// all are after the database was restarted, it is made once more on another.
func (d *database) read(ctx context.Context, what string, do request) error {
	_, err := d.try(ctx, do)
	if broken(err) && ctx.Err() == nil && d.ctx.Err() == nil {
		d.pool.Reset() // the others are no better
		_, err = d.try(ctx, do)
	}
	return d.failed(ctx, what, err)
}

// change makes a request that changes something. Its error is [store.ErrUnknown] if it is not known
// whether it did.
func (d *database) change(ctx context.Context, do request) error {
	sent, err := d.try(ctx, do)
	if broken(err) {
		d.pool.Reset() // where one connection broke, the others did as well
	}
	if err != nil && sent && rolledBack(err) == "" { // pgconn.SafeToRetry is also true of what comes after a batch was sent
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return err
}

// try makes a request, and reports whether it came so far as to have a connection. What the server has rolled back
// since another transaction came first is made again: where roles or databases are stricter than READ COMMITTED
// by default, that is how writers meet. To begin each transaction with another level would cost round trips.
func (d *database) try(ctx context.Context, do request) (sent bool, err error) {
	if err := cmp.Or(ctx.Err(), d.ctx.Err()); err != nil {
		return false, err
	}
	waiting, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := d.pool.Acquire(waiting)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	within, cancel := d.late(ctx)
	defer cancel()
	for {
		err = do(within, conn)
		if code := rolledBack(err); code != notSerial && code != deadlock || within.Err() != nil {
			return true, err
		}
		select { // not at the same time again
		case <-time.After(time.Duration(1+rand.IntN(20)) * time.Millisecond):
		case <-within.Done():
		}
	}
}

// late returns a context for what is under way: it ends after a while, or a little later than ctx or the
// store.
func (d *database) late(ctx context.Context) (context.Context, context.CancelFunc) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
	later := func() { time.AfterFunc(grace, cancel) }
	stop, stopToo := context.AfterFunc(ctx, later), context.AfterFunc(d.ctx, later)
	return within, func() { stop(); stopToo(); cancel() }
}

// failed says what failed, and why, of a request that was given ctx by its caller.
func (d *database) failed(ctx context.Context, what string, err error) error {
	switch {
	case err == nil || expected(err):
	case d.ctx.Err() != nil && !errors.Is(err, store.ErrUnknown):
		err = store.ErrClosed
	case d.ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", store.ErrClosed, err)
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		err = fmt.Errorf("the database does not answer: %w", err)
	}
	return wrapped(what, err)
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("postgres: %s: %w", what, err)
}

// expected reports whether an error is an answer that the database has given.
func expected(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrFull)
}

// broken reports whether an error is about the connection rather than the request, or may be gone on another
// connection: that may lead to the primary where this one led to a standby.
func broken(err error) bool {
	if err == nil || expected(err) || errors.As(err, new(*pgconn.ConnectError)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	code := rolledBack(err)
	return code == "" || code == readOnly
}

// SQLSTATE codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	duplicate    = "23505"
	readOnly     = "25006"
	notSerial    = "40001" // serialization_failure
	deadlock     = "40P01"
	missingRight = "42501"
)

// rolledBack returns the code of an error by which the server says that it has rolled back the transaction, or "".
// Who says that the connection ends, which may be a pooler, may say so after the commit.
func rolledBack(err error) string {
	var said *pgconn.PgError
	if !errors.As(err, &said) || said.SeverityUnlocalized != "ERROR" || strings.HasPrefix(said.Code, "08") || strings.HasPrefix(said.Code, "57P") || said.Code == "40003" {
		return ""
	}
	return said.Code
}

// job is a change to one record, which may share a transaction with others.
type job struct {
	id   store.ID
	head uint64 // afterwards
	size int    // about how many bytes it sends
	sql  string
	args []any               // not the caller's: it may give up before they are sent
	scan func(pgx.Row) error // reads the answer, of which the error is [expected] if it is no
	done chan error
}

// do has a writer make a change.
func (d *database) do(ctx context.Context, what string, j *job) error {
	if err := cmp.Or(ctx.Err(), d.ctx.Err()); err != nil {
		return d.failed(ctx, what, err)
	}
	j.done = make(chan error, 1)
	waiting, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	select {
	case d.jobs <- j:
	case <-waiting.Done():
		return d.failed(ctx, what, waiting.Err())
	case <-d.ctx.Done():
		return d.failed(ctx, what, d.ctx.Err())
	}
	// From here on it may be made, whether the caller waits for it or not.
	within, cancel := d.late(ctx)
	defer cancel()
	select {
	case err := <-j.done:
		return d.failed(ctx, what, err)
	case <-within.Done():
		return d.failed(ctx, what, fmt.Errorf("%w: %w", store.ErrUnknown, within.Err()))
	}
}

// writeJobs makes changes until the store is closed.
func (d *database) writeJobs() {
	for {
		var batch []*job
		select {
		case j := <-d.jobs:
			batch = append(batch, j)
		case <-d.ctx.Done():
			return
		}
		for size, more := batch[0].size, true; more && len(batch) < mostTogether && size < mostBytes; {
			select {
			case j := <-d.jobs:
				batch, size = append(batch, j), size+j.size
			default:
				more = false
			}
		}
		d.commit(batch)
	}
}

// commit makes changes in one transaction and one round trip, and answers those who wait for them.
func (d *database) commit(batch []*job) {
	// Transactions that lock the same records do so in the same order, lest they wait for each other.
	slices.SortStableFunc(batch, func(a, b *job) int { return bytes.Compare(a.id[:], b.id[:]) })
	answers := make([]error, len(batch))
	err := d.change(context.Background(), func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		b := &pgx.Batch{}
		for _, j := range batch {
			b.Queue(j.sql, j.args...)
		}
		results := conn.SendBatch(ctx, b)
		for i, j := range batch {
			if answers[i] = j.scan(results.QueryRow()); answers[i] != nil && !expected(answers[i]) {
				err = answers[i]
				break
			}
		}
		return cmp.Or(err, results.Close()) // the transaction is committed only now
	})
	if code := rolledBack(err); code != "" && len(batch) > 1 { // one of them spoilt it for all
		for _, j := range batch {
			d.commit([]*job{j})
		}
		return
	} else if code == duplicate { // there is another record of the same request
		err = store.ErrConflict
	}
	if errors.Is(err, store.ErrUnknown) {
		d.changed(store.ID{}, 0)
	}
	for i, j := range batch {
		answer := cmp.Or(err, answers[i])
		if answer == nil {
			d.changed(j.id, j.head)
		}
		j.done <- answer
	}
}
