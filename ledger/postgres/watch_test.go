package postgres_test

import (
	"context"
	"errors"
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
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

// listeners returns the processes of the server that serve connections which listen.
func listeners(t testing.TB, server *postgrestest.Server, database string) (pids []int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	rows, err := conn.Query(t.Context(), `SELECT pid FROM pg_stat_activity WHERE datname = $1 AND application_name LIKE '%(listening)'`, database)
	require.NoError(t, err)
	pids, err = pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return pids
}

// waits has somebody wait for a record and for a queue until the test ends or stop is called.
func waits(t testing.TB, s ledger.Store) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for _, err := range s.Watch(ctx, "nothing", 0) {
			assert.ErrorIs(t, err, context.Canceled)
		}
	})
	for i := range 10 {
		all.Go(func() {
			_, err := s.Take(ctx, ledger.Take{Queues: []string{fmt.Sprint("nothing", i), "nothing"}, Limit: 1, Lease: time.Hour})
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	return func() { cancel(); all.Wait() }
}

func TestListening(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	const quiet = 100 * time.Millisecond
	s := openWith(t, url, postgres.Settings{Quiet: quiet})
	become := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return len(listeners(t, server, name)) == n }, long, 20*time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	require.Empty(t, listeners(t, server, name), "nobody waits")
	stop := waits(t, s)
	become(1)
	first := listeners(t, server, name)
	time.Sleep(5 * quiet) // it has looked whether the connection is alive
	require.Equal(t, first, listeners(t, server, name), "somebody waits")
	server.Exec(fmt.Sprint("SELECT pg_terminate_backend(", first[0], ")"))
	require.Eventually(t, func() bool {
		now := listeners(t, server, name)
		return len(now) == 1 && now[0] != first[0]
	}, long, 20*time.Millisecond, "it connects again")
	stop()
	become(0)
	defer waits(t, s)()
	become(1)
}

// What a store hears it acts upon at once, and it says so itself: it never looks for itself here.
func TestOthersAreTold(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	s, other := open(t, url), openWith(t, url, postgres.Settings{Look: 24 * time.Hour})
	defer waits(t, other)()
	require.Eventually(t, func() bool { return len(listeners(t, server, name)) == 1 }, long, 20*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 2*long) // or this test would not end
	defer cancel()
	round := 0
	inTime(t, "most of the time others are told within 250 ms", func() bool {
		const n = 20
		var delays []time.Duration
		for range n {
			round++
			key := fmt.Sprint("told", round)
			took := make(chan error, 1)
			go func() {
				_, err := other.Take(ctx, ledger.Take{Queues: []string{key}, Limit: 1, Lease: time.Hour})
				took <- err
			}()
			saw := make(chan error, 1)
			go func() {
				for r, err := range other.Watch(ctx, key, 0) {
					if err == nil && r.Rev == 0 {
						err = errors.New("a record without a revision")
					}
					saw <- err
					break
				}
			}()
			time.Sleep(20 * time.Millisecond) // for them to wait
			put(t, s, ledger.Record{Key: key, Queue: key, Wake: time.Unix(0, 0)})
			began := time.Now()
			require.NoError(t, <-saw)
			require.NoError(t, <-took)
			delays = append(delays, time.Since(began))
		}
		slices.Sort(delays)
		t.Logf("told after %v", delays)
		return delays[n/2] < 250*time.Millisecond
	})
}

// Others are told of many changes at once, as each time costs the server as much.
func TestOthersAreToldNowAndThen(t *testing.T) {
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
	s := openWith(t, url, postgres.Settings{Gather: gather})
	began := time.Now()
	r := &ledger.Record{Key: "often"}
	for time.Since(began) < 5*gather {
		r = put(t, s, *r)
	}
	put(t, s, ledger.Record{Key: "last"})
	last := postgres.Told("last")
	told := 0
	for heard := ""; !strings.Contains(heard, last); told++ {
		message, err := conn.WaitForNotification(ctx)
		require.NoError(t, err)
		heard = message.Payload
	}
	took := time.Since(began)
	t.Logf("told %d times of %d changes in %v", told, r.Rev+1, took)
	assert.LessOrEqual(t, told, 1+int(took/gather))
}

// Who waits for nothing costs next to nothing.
func TestIdle(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, _ := newDatabase(t, server)
	network := newProxy(t, server)
	s := open(t, network.url(name))
	put(t, s, ledger.Record{Key: "later", Queue: "nothing", Wake: time.Now().Add(time.Hour)})
	defer waits(t, s)()
	require.Eventually(t, func() bool { return len(listeners(t, server, name)) == 1 }, long, 20*time.Millisecond)
	time.Sleep(time.Second) // until all have looked
	inTime(t, "few requests", func() bool {
		before := network.requests.Load()
		time.Sleep(2 * time.Second)
		sent := network.requests.Load() - before
		t.Logf("%d requests in 2 s", sent)
		// One look a second for all who watch, and for each of ten who want to take.
		return sent <= 3+10*3
	})
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
		now, err := s.Now(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, real, now, time.Minute)
		take := ledger.Take{Queues: []string{"q"}, Limit: 9, Lease: time.Hour}
		for key, wake := range map[string]time.Duration{"due": -time.Minute, "soon": time.Minute, "far": 20 * 24 * 365 * time.Hour} {
			put(t, s, ledger.Record{Key: key, Queue: "q", Wake: now.Add(wake), Keep: now.Add(wake)})
		}
		taken, err := s.Take(t.Context(), take)
		require.NoError(t, err)
		require.Len(t, taken, 1)
		require.Equal(t, "due", taken[0].Key)
		require.WithinDuration(t, now.Add(time.Hour), taken[0].Wake, time.Minute)
		n, err := s.Forget(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

func TestPooler(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	pooler := startPooler(t, server)
	name, url := newDatabase(t, server)
	s, direct := openWith(t, pooler.url(name), postgres.Settings{Look: 24 * time.Hour}), open(t, url)
	defer waits(t, s)()
	useAll(t, s)
	saw := make(chan error, 1)
	go func() {
		for _, err := range s.Watch(t.Context(), "k", 0) {
			saw <- err
			break
		}
	}()
	time.Sleep(200 * time.Millisecond)
	put(t, direct, ledger.Record{Key: "k"})
	select {
	case err := <-saw:
		require.NoError(t, err)
	case <-time.After(long):
		t.Fatal("a change by who uses no pooler is not seen")
	}
	require.Empty(t, listeners(t, server, name), "a connection that is shared is not listened on")
}
