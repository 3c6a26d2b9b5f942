package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

// listeners returns the processes of the server that serve connections which listen, of a database or all.
func listeners(t testing.TB, server *postgrestest.Server, database string) (pids []int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	rows, err := conn.Query(t.Context(), `SELECT pid FROM pg_stat_activity WHERE $1::text IN ('', datname::text) AND application_name LIKE '%(listening)' AND state = 'idle' AND query LIKE 'LISTEN%'`, database)
	require.NoError(t, err)
	pids, err = pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return pids
}

// listen listens until the test ends. What it returns is the newest head that it has heard of; of the
// zero ID it is how often anything may have changed.
func listen(t testing.TB, s store.Store) (heard func(store.ID) uint64) {
	var mu sync.Mutex
	heads := map[store.ID]uint64{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		assert.ErrorIs(t, s.Listen(ctx, func(id store.ID, head uint64) {
			mu.Lock()
			defer mu.Unlock()
			if heads[id] = max(heads[id], head); id == (store.ID{}) {
				heads[id]++
			}
		}), context.Canceled)
	})
	t.Cleanup(func() { cancel(); all.Wait() })
	return func(id store.ID) uint64 {
		mu.Lock()
		defer mu.Unlock()
		return heads[id]
	}
}

// hears waits until a connection listens.
func hears(t testing.TB, server *postgrestest.Server, name string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(listeners(t, server, name)) == 1 }, long, 20*time.Millisecond)
}

// There is one connection for all who listen, and one that breaks is replaced, which they hear of.
func TestListening(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	s := open(t, url)
	time.Sleep(100 * time.Millisecond)
	require.Empty(t, listeners(t, server, name), "there are no listeners")
	heard := listen(t, s)
	listen(t, s)
	hears(t, server, name)
	first := listeners(t, server, name)
	gaps := heard(store.ID{})
	server.Exec(fmt.Sprint("SELECT pg_terminate_backend(", first[0], ")"))
	require.Eventually(t, func() bool {
		now := listeners(t, server, name)
		return len(now) == 1 && now[0] != first[0]
	}, long, 20*time.Millisecond, "it connects again")
	require.Eventually(t, func() bool { return heard(store.ID{}) >= gaps+2 }, long, time.Millisecond, "before the gap, and after it")
}

// What another process writes is heard of soon, and what this one does at once.
func TestOthersAreNotified(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	s, other := open(t, url), open(t, url)
	heard, own := listen(t, other), listen(t, s)
	require.Eventually(t, func() bool { return len(listeners(t, server, name)) == 2 }, long, 20*time.Millisecond)
	const n = 20
	for round := 0; ; round++ {
		require.Less(t, round, 50, "most of the time others hear within 100 ms")
		var delays []time.Duration
		for range n {
			r := create(t, s)
			require.EqualValues(t, 1, own(r.ID))
			began := time.Now()
			require.Eventually(t, func() bool { return heard(r.ID) == 1 }, long, time.Millisecond)
			require.NoError(t, s.Signal(t.Context(), r.ID, 1, change("x", "y").Items...))
			require.EqualValues(t, 3, own(r.ID))
			require.Eventually(t, func() bool { return heard(r.ID) == 3 }, long, time.Millisecond)
			delays = append(delays, time.Since(began)/2)
		}
		slices.Sort(delays)
		t.Logf("heard after %v", delays[n/2])
		if delays[n/2] < 100*time.Millisecond {
			return
		}
	}
}

// Others are notified of many changes at once, as each time costs the server as much. What is left is
// sent when the store is closed.
func TestNotificationsAreGathered(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 2*long)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.URL("postgres", name))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, "LISTEN "+postgres.Channel)
	require.NoError(t, err)
	const gather = 100 * time.Millisecond
	s, err := postgres.OpenWith(t.Context(), url, postgres.Settings{Gather: gather})
	require.NoError(t, err)
	began := time.Now()
	r := create(t, s)
	for time.Since(began) < 5*gather {
		require.NoError(t, s.Write(ctx, r, change("x")))
	}
	last := create(t, s)
	require.NoError(t, s.Close())
	took := time.Since(began)
	times := 0
	for heard := ""; !strings.Contains(heard, last.ID.String()); times++ {
		message, err := conn.WaitForNotification(ctx)
		require.NoError(t, err)
		heard = message.Payload
	}
	t.Logf("notified %d times of %d changes in %v", times, r.Head+1, took)
	assert.LessOrEqual(t, times, 2+int(took/gather))
}

// However many records change at once, others hear of all, or that anything may have changed.
func TestManyChangesAtOnce(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	_, url := newDatabase(t, server)
	s, other := openWith(t, url, postgres.Settings{Gather: 2 * time.Second}), open(t, url)
	heard := listen(t, other)
	require.Eventually(t, func() bool { return heard(store.ID{}) >= 2 }, long, time.Millisecond, "at its beginning, and when it is notified")
	create(t, s) // of this others are notified at once, and of the following together
	time.Sleep(20 * time.Millisecond)
	var records []*store.Record
	for range 500 {
		records = append(records, create(t, s))
	}
	for _, r := range records {
		require.Eventually(t, func() bool { return heard(r.ID) == 1 }, long, time.Millisecond)
	}
}

// Behind a pooler, where a connection cannot be listened on, listeners look for themselves.
func TestListeningBehindAPooler(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	pooler := startPooler(t, server)
	name, _ := newDatabase(t, server)
	s := open(t, pooler.url(name))
	heard := listen(t, s)
	useAll(t, s)
	time.Sleep(3200 * time.Millisecond)
	times := heard(store.ID{})
	assert.LessOrEqual(t, times, uint64(9), "twice a second")
	assert.GreaterOrEqual(t, times, uint64(4))
	require.Empty(t, listeners(t, server, name), "a connection that is shared is not listened on")
}

// A store without work sends nothing.
func TestIdle(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, _ := newDatabase(t, server)
	network := newProxy(t, server)
	s := open(t, network.url(name))
	heard := listen(t, s)
	create(t, s)
	hears(t, server, name)
	time.Sleep(time.Second)
	before, looked := network.requests.Load(), heard(store.ID{})
	time.Sleep(3 * time.Second)
	assert.LessOrEqual(t, network.requests.Load()-before, int64(1))
	assert.Equal(t, looked, heard(store.ID{}), "nor has it all who wait read again")
}

// The clock of the process does not matter: in the bubble it is the year 2000.
func TestClockOfTheProcess(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	_, url := newDatabase(t, server)
	real := time.Now()
	synctest.Test(t, func(t *testing.T) {
		require.Less(t, time.Now().Year(), 2001)
		s := open(t, url)
		now, err := s.Check(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, real, now, time.Minute)
		var ids []store.ID
		for _, wake := range []time.Duration{-time.Minute, time.Minute, 20 * 24 * 365 * time.Hour} {
			ids = append(ids, create(t, s, func(r *store.Record) { r.Wake, r.Keep = now.Add(wake), now.Add(wake) }).ID)
		}
		taken, next, err := s.Take(t.Context(), taking(9))
		require.NoError(t, err)
		require.Len(t, taken, 1)
		require.Equal(t, ids[0], taken[0].ID)
		require.WithinDuration(t, now.Add(time.Hour), taken[0].Until, time.Minute)
		require.Equal(t, now.Add(time.Minute), next)
		n, err := s.Forget(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
