package postgres_test

import (
	"os"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/ledgertest"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

var serial atomic.Int64

func TestContract(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
		name, url := newDatabase(t, server)
		require.NoError(t, open(t, url).Close()) // creates the tables before connections break
		return ledgertest.Harness{
			Open: func() ledger.Store {
				s, err := postgres.Open(t.Context(), url)
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
	t.Parallel()
	server := postgrestest.Shared(t)
	pooler := startPooler(t, server)
	pooled := regexp.MustCompile(`/(concurrency|connections|model|take|watch)`)
	ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
		if os.Getenv("SAGA_NIGHTLY") != "1" && !pooled.MatchString(t.Name()) {
			t.Skip("TestContract does the same")
		}
		name, url := newDatabase(t, server)
		require.NoError(t, open(t, url).Close()) // creates the tables before connections break
		return ledgertest.Harness{
			Open: func() ledger.Store {
				s, err := postgres.Open(t.Context(), pooler.url(name))
				require.NoError(t, err)
				return s
			},
			Polls:      true,
			Disconnect: func() { disconnect(server, name) },
		}
	})
}
