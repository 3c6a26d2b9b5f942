package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

// counter counts what is sent to the database.
type counter struct{ trips, statements atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.trips.Add(1)
	c.statements.Add(1)
	return ctx
}
func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	c.trips.Add(1)
	c.statements.Add(int64(data.Batch.Len()))
	return ctx
}
func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// Each call is one round trip, whatever becomes of it, and one statement but for Take, which also asks when
// there is more, and Check, which tries several.
func TestStatements(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	_, url := newDatabase(t, server)
	var c counter
	// Others are notified of the first change only.
	s := openWith(t, url, postgres.Settings{Connect: func(config *pgx.ConnConfig) { config.Tracer = &c }, Gather: time.Hour})
	create(t, s)
	time.Sleep(100 * time.Millisecond)

	r := sample()
	r.Request, r.Wake, r.Keep = store.ID{1}, time.Unix(1, 0), time.Unix(1, 0)
	limited := change("x", "y")
	limited.Most, limited.Lease = 5, time.Millisecond
	conflicting := *r
	conflicting.Head, conflicting.ID = 7, store.ID{7}
	for _, call := range []struct {
		name       string
		statements int64
		do         func() error
		want       error
	}{
		{"create", 1, func() error { return s.Write(t.Context(), r, limited) }, nil},
		{"create again", 1, func() error { again := *r; again.Head = 0; return s.Write(t.Context(), &again, limited) }, store.ErrConflict},
		{"create too many", 1, func() error { one := limited; one.Most = 1; return s.Write(t.Context(), sample(), one) }, store.ErrFull},
		{"commit", 1, func() error { r.Floor = 1; return s.Write(t.Context(), r, limited) }, nil},
		{"conflict", 1, func() error { return s.Write(t.Context(), &conflicting, limited) }, store.ErrConflict},
		{"Signal", 1, func() error { return s.Signal(t.Context(), r.ID, r.Head, limited.Items...) }, nil},
		{"Load", 1, func() error { _, err := s.Load(t.Context(), r.ID); return err }, nil},
		{"Find", 1, func() error { _, err := s.Find(t.Context(), r.Request); return err }, nil},
		{"Log", 1, func() error { _, err := s.Log(t.Context(), r.ID, 0, 2); return err }, nil},
		{"Take", 2, func() error {
			time.Sleep(5 * time.Millisecond) // until the lease is over
			taken, _, err := s.Take(t.Context(), taking(3))
			assert.Len(t, taken, 1)
			return err
		}, nil},
		{"Renew", 1, func() error {
			_, err := s.Renew(t.Context(), []store.Held{{ID: r.ID}, {ID: store.ID{5}}}, time.Hour)
			return err
		}, nil},
		{"List by owner", 1, func() error {
			_, err := s.List(t.Context(), store.Filter{Audience: "a", Owner: r.Owner, Mode: r.Mode}, store.Cursor{}, 9)
			return err
		}, nil},
		{"List by status", 1, func() error {
			_, err := s.List(t.Context(), store.Filter{Audience: "a", Mode: store.ModeTask, Statuses: []store.Status{store.Waiting, store.Ended}}, store.Cursor{}, 9)
			return err
		}, nil},
		{"Forget", 1, func() error { _, err := s.Forget(t.Context(), 9); return err }, nil},
		{"Identity", 1, func() error { _, err := s.Identity(t.Context()); return err }, nil},
		{"Check", 4, func() error { _, err := s.Check(t.Context()); return err }, nil},
	} {
		trips, statements := c.trips.Load(), c.statements.Load()
		err := call.do()
		if call.want == nil {
			require.NoError(t, err, call.name)
		} else {
			require.ErrorIs(t, err, call.want, call.name)
		}
		assert.EqualValues(t, 1, c.trips.Load()-trips, call.name)
		assert.Equal(t, call.statements, c.statements.Load()-statements, call.name)
	}
}
