package postgres_test

import (
	"errors"
	"flag"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
	goleak.VerifyTestMain(postgrestest.Tests{M: m})
}

// open returns a store that is closed when the test ends.
func open(t testing.TB, url string) ledger.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// openImpatient is as open, with another bound for each request.
func openImpatient(t testing.TB, url string, patience time.Duration) ledger.Store {
	t.Helper()
	s, err := postgres.OpenImpatient(t.Context(), url, patience)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
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
