package postgres_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

func TestMain(m *testing.M) {
	// Each call of the random sequences costs a round trip and many of them a wait, so there
	// are fewer of them than for the store in memory. -rapid.checks asks for more.
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

// open returns a store that is closed when the test ends. It is more patient than those of programs.
func open(t testing.TB, url string) ledger.Store {
	t.Helper()
	return openWith(t, url, postgres.Settings{})
}

// openWith is as open, with other settings.
func openWith(t testing.TB, url string, change postgres.Settings) ledger.Store {
	t.Helper()
	change.Patience = cmp.Or(change.Patience, long)
	s, err := postgres.OpenWith(t.Context(), url, change)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// inTime repeats a measurement until it comes out as it must: what other programs that compute
// meanwhile add to it differs from one time to the next.
func inTime(t *testing.T, what string, measure func() (good bool)) {
	t.Helper()
	for end := time.Now().Add(long); !measure(); {
		require.True(t, time.Now().Before(end), "not once within %v: %s", long, what)
	}
}

// put writes a record that must not conflict.
func put(t testing.TB, s ledger.Store, r ledger.Record) *ledger.Record {
	t.Helper()
	require.NoError(t, s.Swap(t.Context(), &r))
	return &r
}

// newDatabase creates a database, and returns its URL.
func newDatabase(t testing.TB, server *postgrestest.Server) (name, url string) {
	t.Helper()
	name = "test_" + strings.ToLower(fmt.Sprintf("%x", serial.Add(1)))
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
