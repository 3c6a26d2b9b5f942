package postgres_test

import (
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/ledgertest"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

var serial atomic.Int64

// databases are those of checks that have ended, with the tables of a ledger, empty again: to
// create a database takes longer than most checks.
type databases struct {
	mu   sync.Mutex
	free []string
}

// take is for a check, until it ends.
func (d *databases) take(t testing.TB, server *postgrestest.Server) (name, url string) {
	t.Helper()
	d.mu.Lock()
	if n := len(d.free); n > 0 {
		name, d.free = d.free[n-1], d.free[:n-1]
	}
	d.mu.Unlock()
	if name == "" {
		name, url = newDatabase(t, server)
		s, err := postgres.Open(t.Context(), url) // creates the tables before connections break
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	t.Cleanup(func() { // after the check has closed its stores
		if t.Failed() {
			return
		}
		server.ExecIn(name, "TRUNCATE mcpsaga_ledger.records, mcpsaga_ledger.items RESTART IDENTITY")
		d.mu.Lock()
		defer d.mu.Unlock()
		d.free = append(d.free, name)
	})
	return name, server.URL("postgres", name)
}

func TestContract(t *testing.T) {
	t.Parallel()
	server, free := postgrestest.Shared(t), new(databases)
	ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
		name, url := free.take(t, server)
		return ledgertest.Harness{
			Open: func() ledger.Store {
				s, err := postgres.OpenWith(t.Context(), url, postgres.Settings{Patience: long})
				require.NoError(t, err)
				return s
			},
			Disconnect: func() { disconnect(server, name) },
		}
	})
}

// Behind a pooler in transaction mode each transaction may be executed on another
// connection, and nobody tells of changes. What a single caller does step by step is the same as
// without a pooler, and left out unless SAGA_NIGHTLY is 1.
func TestContractBehindAPooler(t *testing.T) {
	if testing.Short() {
		t.Skip("goroutines meet as they do in TestContract")
	}
	t.Parallel()
	server, free := postgrestest.Shared(t), new(databases)
	pooler := startPooler(t, server)
	pooled := regexp.MustCompile(`/(concurrency|connections|model|take|watch)`)
	ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
		if os.Getenv("SAGA_NIGHTLY") != "1" && !pooled.MatchString(t.Name()) {
			t.Skip("TestContract does the same")
		}
		name, _ := free.take(t, server)
		return ledgertest.Harness{
			Open: func() ledger.Store {
				s, err := postgres.OpenWith(t.Context(), pooler.url(name), postgres.Settings{Patience: long})
				require.NoError(t, err)
				return s
			},
			Polls:      true,
			Disconnect: func() { disconnect(server, name) },
		}
	})
}
