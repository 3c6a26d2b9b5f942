package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// grace is how long the answer to a request is waited for after its caller has given up. To cut it off
// costs the connection, and leaves it unknown what a write has done.
const grace = time.Second

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
	var said *pgconn.PgError
	switch {
	case err == nil:
	case errors.As(err, &said) && certain(said):
		if said.Code == readOnly {
			d.pool.Reset() // the server has become a standby; another may be the primary
		}
	case sent: // pgconn.SafeToRetry is also true of errors after a batch was sent
		if broken(err) {
			d.pool.Reset() // where one connection broke, the others did as well
		}
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return err
}

// try makes a request, and reports whether it came so far as to have a connection.
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
	return true, do(within, conn)
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
	case d.ctx.Err() != nil && errors.Is(err, store.ErrUnknown):
		err = fmt.Errorf("%w: %w", store.ErrClosed, err)
	case d.ctx.Err() != nil:
		err = store.ErrClosed
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

// broken reports whether an error is about the connection rather than the request.
func broken(err error) bool {
	var said *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case err == nil, expected(err), errors.As(err, &connect):
		return false // another would be no better
	case errors.As(err, &said):
		return !certain(said) || said.Code == readOnly
	}
	return !errors.Is(err, pgx.ErrNoRows) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// SQLSTATE codes (https://www.postgresql.org/docs/current/errcodes-appendix.html).
const (
	duplicate    = "23505"
	readOnly     = "25006"
	missingRight = "42501"
)

// certain reports whether a server that says this has rolled back the transaction for sure.
// Who says that the connection ends, which may be a pooler, may say so after the commit.
func certain(said *pgconn.PgError) bool {
	return said.SeverityUnlocalized == "ERROR" && !strings.HasPrefix(said.Code, "08") && !strings.HasPrefix(said.Code, "57P") && said.Code != "40003"
}
