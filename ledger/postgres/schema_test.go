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
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)

	for _, isolation := range []string{"read committed", "repeatable read"} {
		t.Run("ten replicas at once, "+isolation, func(t *testing.T) {
			name, url := newDatabase(t, server)
			server.Exec("ALTER DATABASE " + name + " SET default_transaction_isolation = '" + isolation + "'")
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					s, err := postgres.Open(t.Context(), url)
					if assert.NoError(t, err) {
						assert.NoError(t, s.Write(t.Context(), sample(), change("x")))
						assert.NoError(t, s.Close())
					}
				})
			}
			all.Wait()
		})
	}

	t.Run("a role that may create nothing", func(t *testing.T) {
		name, url := newDatabase(t, server)
		small := newRole(server, "")
		_, err := postgres.Open(t.Context(), server.URL(small, name))
		require.ErrorContains(t, err, "this role may not create the tables, or use those that there are: open the ledger once as a role that may")
		open(t, url)
		_, err = postgres.Open(t.Context(), server.URL(small, name))
		require.ErrorContains(t, err, "GRANT USAGE ON SCHEMA mcpsaga_ledger")
		server.ExecIn(name, "GRANT USAGE ON SCHEMA mcpsaga_ledger TO "+small+"; GRANT SELECT ON ALL TABLES IN SCHEMA mcpsaga_ledger TO "+small)
		_, err = postgres.Open(t.Context(), server.URL(small, name))
		require.EqualError(t, err, "postgres: prepare the tables: this role may not use those that there are: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger to it")
		server.ExecIn(name, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger TO "+small)
		useAll(t, open(t, server.URL(small, name)))
	})

	t.Run("a schema that its administrator made", func(t *testing.T) {
		name, _ := newDatabase(t, server)
		owner := newRole(server, "")
		server.ExecIn(name, "CREATE SCHEMA mcpsaga_ledger AUTHORIZATION "+owner)
		useAll(t, open(t, server.URL(owner, name)))
	})

	t.Run("tables of a newer version", func(t *testing.T) {
		name, url := newDatabase(t, server)
		s := open(t, url)
		server.ExecIn(name, `ALTER TABLE mcpsaga_ledger.records ADD colour text NOT NULL DEFAULT 'red', ADD extra bytea;
ALTER TABLE mcpsaga_ledger.items ADD extra bytea; CREATE TABLE mcpsaga_ledger.more (key bytea);
UPDATE mcpsaga_ledger.version SET version = 3, oldest = 2`)
		useAll(t, s)
		useAll(t, open(t, url))
		server.ExecIn(name, `UPDATE mcpsaga_ledger.version SET version = 4, oldest = 3`)
		_, err := postgres.Open(t.Context(), url)
		require.EqualError(t, err, "postgres: prepare the tables: those in the schema mcpsaga_ledger are of version 4, which programs before version 3 cannot use, and this one is of version 2: use a newer program")
	})

	t.Run("tables of the first version", func(t *testing.T) {
		name, url := newDatabase(t, server)
		server.ExecIn(name, `CREATE SCHEMA mcpsaga_ledger;
CREATE TABLE mcpsaga_ledger.records (key bytea PRIMARY KEY, rev bigint NOT NULL, queue bytea, owner bytea, body bytea NOT NULL, wake timestamptz, keep timestamptz);
CREATE TABLE mcpsaga_ledger.items (key bytea NOT NULL REFERENCES mcpsaga_ledger.records ON DELETE CASCADE, n bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (key, n));
CREATE TABLE mcpsaga_ledger.version (one boolean PRIMARY KEY DEFAULT true CHECK (one), version int NOT NULL, oldest int NOT NULL);
INSERT INTO mcpsaga_ledger.version (version, oldest) VALUES (1, 1);
INSERT INTO mcpsaga_ledger.records (key, rev, body) VALUES ('k', 1, 'kept')`)
		_, err := postgres.Open(t.Context(), url)
		require.EqualError(t, err, "postgres: prepare the tables: those in the schema mcpsaga_ledger are of version 1, which only earlier programs can use: "+
			"let those finish their sagas, then rename the schema or drop it, and this program makes tables of version 2; or give it another database")
		server.ExecIn(name, `DO $$ BEGIN
	ASSERT (SELECT count(*) = 1 FROM mcpsaga_ledger.records WHERE key = 'k' AND rev = 1 AND body = 'kept'), 'the record';
	ASSERT (SELECT version = 1 AND oldest = 1 FROM mcpsaga_ledger.version), 'the version';
END $$`)
	})

	t.Run("an earlier program", func(t *testing.T) {
		name, url := newDatabase(t, server)
		useAll(t, open(t, url))
		server.ExecIn(name, `DO $$ BEGIN ASSERT (SELECT oldest > 1 FROM mcpsaga_ledger.version), 'which it looks at'; END $$`)
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
func useAll(t *testing.T, s store.Store) {
	t.Helper()
	now, err := s.Check(t.Context())
	require.NoError(t, err)
	r := create(t, s, func(r *store.Record) {
		r.Audience, r.Request, r.Wake, r.Keep = fmt.Sprint("all ", serial.Add(1)), store.ID{byte(serial.Add(1)), 5}, now, now
	})
	require.NoError(t, s.Signal(t.Context(), r.ID, 1, change("y").Items...))
	take := taking(1)
	take.Audience = r.Audience
	taken, _, err := s.Take(t.Context(), take)
	require.NoError(t, err)
	require.Len(t, taken, 1)
	got := taken[0]
	require.Len(t, got.Unread, 1)
	lost, err := s.Renew(t.Context(), []store.Held{{ID: got.ID, Fence: got.Fence}}, time.Minute)
	require.NoError(t, err)
	require.Empty(t, lost)
	got.Floor = 1
	require.NoError(t, s.Write(t.Context(), got, change("z")))
	found, err := s.Find(t.Context(), r.Request)
	require.NoError(t, err)
	require.Equal(t, got.State, found.State)
	require.Equal(t, now, found.Keep)
	log, err := s.Log(t.Context(), r.ID, 0, 9)
	require.NoError(t, err)
	require.Len(t, log.Items, 2)
	loaded, err := s.Load(t.Context(), r.ID)
	require.NoError(t, err)
	require.Equal(t, uint64(3), loaded.Head)
	for _, f := range []store.Filter{{Audience: r.Audience, Owner: r.Owner, Mode: r.Mode}, {Audience: r.Audience, Statuses: []store.Status{r.Status}}} {
		list, err := s.List(t.Context(), f, store.Cursor{}, 9)
		require.NoError(t, err)
		require.Len(t, list, 1)
	}
	id, err := s.Identity(t.Context())
	require.NoError(t, err)
	require.NotZero(t, id)
	n, err := s.Forget(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = s.Load(t.Context(), r.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// A check tries all that writing a record takes, and leaves nothing behind.
func TestCheckTriesAllRights(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	open(t, url)
	role := newRole(server, "")
	const all = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger TO "
	server.ExecIn(name, "GRANT USAGE ON SCHEMA mcpsaga_ledger TO "+role+"; GRANT "+all+role)
	s := open(t, server.URL(role, name))
	for _, table := range []string{"records", "items"} {
		for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			if table == "items" && right == "UPDATE" {
				continue // an item never changes
			}
			_, err := s.Check(t.Context())
			require.NoError(t, err)
			server.ExecIn(name, "REVOKE "+right+" ON mcpsaga_ledger."+table+" FROM "+role)
			_, err = s.Check(t.Context())
			assert.ErrorContains(t, err, "permission denied for table "+table, right)
			server.ExecIn(name, "GRANT "+all+role)
		}
	}
	server.ExecIn(name, "DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM mcpsaga_ledger.records) AND NOT EXISTS (SELECT FROM mcpsaga_ledger.items); END $$")
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
	require.EqualError(t, err, `postgres: the database's URL cannot be used: cannot parse pool_max_conns (strconv.ParseInt: parsing "many": invalid syntax)`)

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
