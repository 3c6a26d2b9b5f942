package postgres_test

import (
	"cmp"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

func TestMain(m *testing.M) {
	// Each call of the random sequences costs a round trip, so there are fewer of them than for the
	// store in memory. -rapid.checks asks for more.
	if err := flag.Set("rapid.checks", "8"); err != nil {
		panic(err)
	}
	// Tests wait most of the time, each with a database of its own. -parallel changes it.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	leaktest.Main(postgrestest.Tests{M: m})
}

// long is for what has no time of its own: it must come sooner or later, also on a slow machine
// that is busy with other things.
const long = time.Minute

var serial atomic.Int64

// open returns a store that is closed when the test ends. It is more patient than those of programs.
func open(t testing.TB, url string) store.Store {
	t.Helper()
	return openWith(t, url, postgres.Settings{})
}

// openWith is as open, with other settings.
func openWith(t testing.TB, url string, change postgres.Settings) store.Store {
	t.Helper()
	change.Patience = cmp.Or(change.Patience, long)
	s, err := postgres.OpenWith(t.Context(), url, change)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// sample is a record to be created.
func sample() *store.Record {
	r := &store.Record{
		Audience: "a", Owner: store.ID{1}, Account: store.ID{2}, Tool: "t", Revision: 1, Format: 1,
		Mode: store.ModeTask, Status: store.Waiting, Summary: []byte("summary"), State: []byte("state"),
	}
	rand.Read(r.ID[:]) // never fails
	return r
}

// change is a write that appends items.
func change(bodies ...string) (c store.Change) {
	for _, b := range bodies {
		c.Items = append(c.Items, store.Item{Kind: "k", Body: []byte(b)})
	}
	return c
}

// create writes a new record, changed first.
func create(t testing.TB, s store.Store, edits ...func(*store.Record)) *store.Record {
	t.Helper()
	r := sample()
	for _, edit := range edits {
		edit(r)
	}
	require.NoError(t, s.Write(t.Context(), r, change("x")))
	return r
}

// taking is a take of all that sample makes.
func taking(limit int) store.Take {
	return store.Take{Audience: "a", Tools: []store.Tool{{Name: "t", Revision: 1}}, Format: 1, Limit: limit, Lease: time.Hour}
}

// newDatabase creates a database, and returns its URL.
func newDatabase(t testing.TB, server *postgrestest.Server) (name, url string) {
	t.Helper()
	name = fmt.Sprintf("test_%x", serial.Add(1))
	server.Exec("CREATE DATABASE " + name)
	return name, server.URL("postgres", name)
}

// newRole creates a role that may log in.
func newRole(server *postgrestest.Server, options string) (name string) {
	name = fmt.Sprint("role_", serial.Add(1))
	server.Exec("CREATE ROLE " + name + " LOGIN " + options)
	return name
}

// disconnect ends all connections to a database.
func disconnect(server *postgrestest.Server, database string) {
	server.Exec(fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", database))
}

// chain yields an error and all that it wraps.
func chain(err error) iter.Seq[error] {
	return func(yield func(error) bool) {
		for ; err != nil && yield(err); err = errors.Unwrap(err) {
		}
	}
}
