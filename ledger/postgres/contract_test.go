package postgres_test

import (
	"os"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

// databases are those of checks that have ended, with empty tables: to create a database takes longer
// than most checks.
type databases struct {
	mu       sync.Mutex
	free     []string
	defaults []string // what sessions begin with
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
		name, _ = newDatabase(t, server)
		for _, set := range d.defaults {
			server.Exec("ALTER DATABASE " + name + " SET " + set)
		}
	}
	t.Cleanup(func() { // after the check has closed its stores
		if t.Failed() {
			return
		}
		server.ExecIn(name, "TRUNCATE mcpsaga_ledger.records, mcpsaga_ledger.items")
		d.mu.Lock()
		defer d.mu.Unlock()
		d.free = append(d.free, name)
	})
	return name, server.URL("postgres", name)
}

func TestContract(t *testing.T) {
	t.Parallel()
	testContract(t, postgrestest.Shared(t), new(databases))
}

func testContract(t *testing.T, server *postgrestest.Server, free *databases) {
	t.Helper()
	storetest.Run(t, func(t *testing.T) storetest.Open {
		_, url := free.take(t, server)
		return func() store.Store {
			s, err := postgres.OpenWith(t.Context(), url, postgres.Settings{Patience: long})
			require.NoError(t, err)
			return s
		}
	})
}

// Behind a pooler in transaction mode each transaction may be executed on another connection, and
// there are no notifications. What a single caller does step by step is the same as without a pooler,
// and left out unless SAGA_NIGHTLY is 1.
func TestContractBehindAPooler(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	testPooledContract(t, server, startPooler(t, server), new(databases))
}

func testPooledContract(t *testing.T, server *postgrestest.Server, pooler pooler, free *databases) {
	t.Helper()
	pooled := regexp.MustCompile(`/(OneWinner|NoSignalIsLost|EachIsTakenOnce|Model|Take|Listen|Ends)$`)
	storetest.Run(t, func(t *testing.T) storetest.Open {
		if os.Getenv("SAGA_NIGHTLY") != "1" && !pooled.MatchString(t.Name()) {
			t.Skip("TestContract does the same")
		}
		name, _ := free.take(t, server)
		return func() store.Store {
			s, err := postgres.OpenWith(t.Context(), pooler.url(name), postgres.Settings{Patience: long})
			require.NoError(t, err)
			return s
		}
	})
}

// What the database or the role sets for its sessions is meant for other programs.
func TestContractWithDefaultsOfOthers(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for _, isolation := range []string{"serializable", "repeatable read"} {
		t.Run(isolation, func(t *testing.T) {
			defaults := []string{
				"default_transaction_isolation = '" + isolation + "'", "datestyle = 'German'", "intervalstyle = 'sql_standard'",
				"timezone = 'America/St_Johns'", "bytea_output = 'escape'", "extra_float_digits = -15",
			}
			t.Run("", func(t *testing.T) { testContract(t, server, &databases{defaults: defaults}) })
			t.Run("behind a pooler", func(t *testing.T) {
				testPooledContract(t, server, startPooler(t, server), &databases{defaults: defaults})
			})
		})
	}
}
