package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)

	t.Run("ten replicas at once", func(t *testing.T) {
		_, url := newDatabase(t, server)
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				s, err := postgres.Open(t.Context(), url)
				if assert.NoError(t, err) {
					assert.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: fmt.Sprint(i)}))
					assert.NoError(t, s.Close())
				}
			})
		}
		all.Wait()
	})

	t.Run("a role that may create nothing", func(t *testing.T) {
		name, url := newDatabase(t, server)
		small := newRole(server, "")
		_, err := postgres.Open(t.Context(), server.URL(small, name))
		require.ErrorContains(t, err, "this role may not change them; open the ledger once as a role that may")
		open(t, url)
		_, err = postgres.Open(t.Context(), server.URL(small, name))
		require.ErrorContains(t, err, "permission denied for schema mcpsaga_ledger")
		server.ExecIn(name, "GRANT USAGE ON SCHEMA mcpsaga_ledger TO "+small+"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger TO "+small)
		useAll(t, open(t, server.URL(small, name)))
	})

	t.Run("a schema that somebody else made", func(t *testing.T) {
		name, _ := newDatabase(t, server)
		owner := newRole(server, "")
		server.ExecIn(name, "CREATE SCHEMA mcpsaga_ledger AUTHORIZATION "+owner)
		useAll(t, open(t, server.URL(owner, name)))
	})

	t.Run("tables of a newer version", func(t *testing.T) {
		name, url := newDatabase(t, server)
		before := open(t, url)
		put(t, before, ledger.Record{Key: "old"})
		server.ExecIn(name, `BEGIN;
ALTER TABLE mcpsaga_ledger.records ADD colour text NOT NULL DEFAULT 'red', ADD extra bytea;
ALTER TABLE mcpsaga_ledger.items ADD extra bytea;
CREATE TABLE mcpsaga_ledger.more (key bytea);
UPDATE mcpsaga_ledger.version SET version = 2, oldest = 1;
COMMIT`)
		useAll(t, before)
		useAll(t, open(t, url))
		_, err := before.Load(t.Context(), "old")
		require.NoError(t, err)

		server.ExecIn(name, `UPDATE mcpsaga_ledger.version SET version = 3, oldest = 2`)
		_, err = postgres.Open(t.Context(), url)
		require.EqualError(t, err, "ledger/postgres: the tables in the schema mcpsaga_ledger are of version 3, which programs before version 2 cannot use, and this one is of version 1: use a newer program")
	})

	t.Run("each way to execute statements", func(t *testing.T) {
		_, url := newDatabase(t, server)
		for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
			useAll(t, open(t, url+"&default_query_exec_mode="+mode))
		}
	})

	t.Run("what cannot be used", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), server.URL("postgres", "nothing"))
		require.ErrorContains(t, err, `database "nothing" does not exist`)

		_, url := newDatabase(t, server)
		_, err = postgres.Open(t.Context(), url+"&default_transaction_read_only=on")
		require.ErrorContains(t, err, "the database can only be read")
		_, err = postgres.Open(t.Context(), url+"&synchronous_commit=off")
		require.ErrorContains(t, err, "synchronous_commit is off")
	})
}

// useAll has a store do everything once.
func useAll(t *testing.T, s ledger.Store) {
	t.Helper()
	now, err := s.Now(t.Context())
	require.NoError(t, err)
	key := fmt.Sprint("all", serial.Add(1))
	r := &ledger.Record{Key: key, Queue: key, Owner: key, Wake: now, Keep: now}
	require.NoError(t, s.Swap(t.Context(), r, ledger.Item{N: 1}))
	taken, err := s.Take(t.Context(), ledger.Take{Queues: []string{key}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, taken, 1)
	require.NoError(t, s.Swap(t.Context(), taken[0], ledger.Item{N: 2}))
	items, err := s.Items(t.Context(), key, 0, 9)
	require.NoError(t, err)
	require.Len(t, items, 2)
	n, err := s.Count(t.Context(), key, 9)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	list, err := s.List(t.Context(), []string{key}, "", 9)
	require.NoError(t, err)
	require.Len(t, list, 1)
	n, err = s.Forget(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = s.Load(t.Context(), key)
	require.ErrorIs(t, err, ledger.ErrNotFound)
}

// Whatever is wrong with a URL, no error shows what may be its password.
func TestPasswordsAreNotShown(t *testing.T) {
	t.Parallel()
	const secret = "tr0ub4dor"
	refused := func(t *testing.T, url string) {
		_, err := postgres.Open(t.Context(), url)
		require.Error(t, err, url)
		for e := range chain(err) {
			assert.NotContains(t, e.Error(), secret, url)
			assert.NotContains(t, fmt.Sprintf("%+v", e), secret, url)
		}
	}
	for _, url := range []string{
		"postgres://u:" + secret + "@127.0.0.1:1/db",
		"postgres://u:" + secret + "/x@127.0.0.1/db",
		"postgres://u:" + secret + "#x@127.0.0.1/db",
		"postgres://u:%" + secret + "@127.0.0.1/db",
		"postgres://u:" + secret + "@127.0.0.1:port/db",
		"postgres://u:" + secret + "@127.0.0.1:99999999/db",
		"postgres://u:" + secret + "@127.0.0.1/db?sslmode=" + secret,
		"postgres://u:" + secret + "@127.0.0.1/db?pool_max_conns=" + secret,
		"postgres://u@127.0.0.1/db?pool_max_conns=x&password=" + secret,
		"postgres://u:a%20" + secret + "@127.0.0.1/db?pool_max_conns=a%20" + secret,
		"postgres//u:" + secret + "@127.0.0.1/db",
		"host=127.0.0.1 port=1 password='" + secret,
		"host=127.0.0.1 port=x password=" + secret,
		"host=127.0.0.1 user=u password=a pool_max_conns=" + secret, // a space in it
		secret, " " + secret + "@x", "mysql://u:" + secret + "@h/db",
	} {
		refused(t, url)
	}
	_, err := postgres.Open(t.Context(), "postgres://u:secret@h/db?pool_max_conns=many")
	require.EqualError(t, err, `ledger/postgres: the database's URL cannot be used: cannot parse pool_max_conns (strconv.ParseInt: parsing "many": invalid syntax)`)

	t.Run("by a server that refuses it", func(t *testing.T) {
		server := postgrestest.Shared(t)
		hba := filepath.Join(server.Dir, "data", "pg_hba.conf")
		rest, err := os.ReadFile(hba)
		require.NoError(t, err)
		closed := newRole(server, "PASSWORD 'another'")
		require.NoError(t, os.WriteFile(hba, append([]byte("local all "+closed+" scram-sha-256\n"), rest...), 0o600))
		server.Exec("SELECT pg_reload_conf()")
		refused(t, "postgres://"+closed+":"+secret+"@/postgres?host="+server.Dir)
		refused(t, "host="+server.Dir+" user="+closed+" dbname=postgres password="+secret)
	})
}
