package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

// What a lost connection leaves unknown is said to be unknown, and nothing else is.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for _, c := range []struct {
		name          string
		fault         fault
		unknown, made bool
	}{
		{"the request is lost", losesRequests, true, false},
		{"the answer is lost", losesAnswers, true, true},
		{"the answer does not come before the caller gives up", holdsAnswers, true, true},
		{"nobody can connect", refuses, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, url := newDatabase(t, server)
			network := newProxy(t, server)
			direct := open(t, url)
			s := open(t, network.url(name)+"&pool_max_conns=1")
			r := put(t, direct, *put(t, direct, ledger.Record{Key: "k", Body: []byte("before")}))
			// The statement is prepared by a change that is not made, so that others are not told of it
			// later.
			require.ErrorIs(t, s.Swap(t.Context(), &ledger.Record{Key: "k", Rev: 1}), ledger.ErrConflict)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := network.requests.Load()
			network.becomes(c.fault)
			if c.fault == refuses {
				// The connections that there were are used up first.
				_, err := s.Load(ctx, "k")
				require.Error(t, err)
			}
			next, swapped := *r, make(chan error, 1)
			next.Body = []byte("after")
			go func() { swapped <- s.Swap(ctx, &next) }()
			if c.fault == holdsAnswers {
				network.sends(t, before)
				seen := func() bool { r, err := direct.Load(t.Context(), "k"); return err == nil && r.Rev == 3 }
				require.Eventually(t, seen, long, time.Millisecond, "the change is made")
				cancel()
			}
			err := <-swapped
			require.Error(t, err)
			assert.Equal(t, c.unknown, errors.Is(err, ledger.ErrUnknown), "%v", err)
			assert.Equal(t, c.fault == holdsAnswers, errors.Is(err, context.Canceled), "%v", err)
			assert.NotErrorIs(t, err, ledger.ErrConflict)
			assert.EqualValues(t, 2, next.Rev)
			network.becomes(none)

			// As a careful client does: look what became of it.
			var now *ledger.Record
			require.Eventually(t, func() bool { now, err = s.Load(t.Context(), "k"); return err == nil }, long, 10*time.Millisecond)
			assert.Equal(t, c.made, string(now.Body) == "after")
			seen, err := direct.Load(t.Context(), "k")
			require.NoError(t, err)
			assert.Equal(t, now, seen)
			now.Body = []byte("later")
			require.NoError(t, s.Swap(t.Context(), now), "the store goes on")
		})
	}
}

// What the server refuses for sure is not unknown, and one change does not spoil others
// that go with it in one transaction.
func TestOneChangeDoesNotSpoilOthers(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	_, url := newDatabase(t, server)
	s := open(t, url)
	const n = 64
	records := make([]*ledger.Record, n)
	for i := range records {
		r := ledger.Record{Key: fmt.Sprint(i)}
		require.NoError(t, s.Swap(t.Context(), &r, ledger.Item{N: 1}))
		records[i] = &r
	}
	for range 5 {
		var all sync.WaitGroup
		for i, r := range records {
			all.Go(func() {
				if i%3 == 0 {
					was := *r
					assert.ErrorIs(t, s.Swap(t.Context(), r, ledger.Item{N: r.Rev + 1}, ledger.Item{N: 1}), ledger.ErrConflict)
					assert.Equal(t, was, *r)
					return
				}
				assert.NoError(t, s.Swap(t.Context(), r, ledger.Item{N: r.Rev + 1}))
			})
		}
		all.Wait()
	}
	for i, r := range records {
		now, err := s.Load(t.Context(), r.Key)
		require.NoError(t, err)
		items, err := s.Items(t.Context(), r.Key, 0, 100)
		require.NoError(t, err)
		want := 6
		if i%3 == 0 {
			want = 1
		}
		assert.EqualValues(t, want, now.Rev)
		assert.Len(t, items, want)
	}
}

// The database crashes under load, twice, and comes back: nothing that was acknowledged is
// lost, what waits goes on once its caller calls again, and nobody opens the store anew.
func TestTheDatabaseCrashes(t *testing.T) {
	t.Parallel()
	server := postgrestest.Run(t, "fsync=off") // the machine goes on, and writes what it was given
	_, url := newDatabase(t, server)
	s := open(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var unknown, failed atomic.Int64
	acknowledged := make([]atomic.Int64, 8)
	for i := range acknowledged {
		all.Go(func() {
			r := &ledger.Record{Key: fmt.Sprint("w", i)}
			for n := int64(1); ctx.Err() == nil; {
				r.Body = fmt.Append(nil, n)
				switch err := s.Swap(context.WithoutCancel(ctx), r); {
				case err == nil:
					acknowledged[i].Store(n)
					n++
				case errors.Is(err, ledger.ErrUnknown):
					unknown.Add(1)
					for {
						now, err := s.Load(context.WithoutCancel(ctx), r.Key)
						if err == nil {
							r = now
							if string(now.Body) == fmt.Sprint(n) {
								acknowledged[i].Store(n)
								n++
							}
						}
						if err == nil || errors.Is(err, ledger.ErrNotFound) {
							break
						}
						time.Sleep(5 * time.Millisecond)
					}
				case errors.Is(err, ledger.ErrConflict):
					assert.NoError(t, err, "a record that nobody else writes")
					return
				default:
					failed.Add(1)
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	woken := make(chan struct{})
	all.Go(func() {
		defer close(woken)
		for {
			if taken, err := s.Take(t.Context(), ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour}); err == nil {
				assert.Equal(t, "late", taken[0].Key)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	seen := make(chan struct{})
	all.Go(func() {
		defer close(seen)
		for {
			for r, err := range s.Watch(t.Context(), "late", 0) {
				if err != nil {
					break
				}
				assert.EqualValues(t, "late", r.Key)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	goOn := func() { // all of them
		t.Helper()
		for i := range acknowledged {
			before := acknowledged[i].Load()
			require.Eventually(t, func() bool { return acknowledged[i].Load() > before }, long, time.Millisecond)
		}
	}
	for range 2 {
		goOn()
		server.Crash()
		_, err := s.Now(t.Context())
		assert.Error(t, err)
		assert.NotErrorIs(t, err, ledger.ErrUnknown)
		// Nobody can connect any more, so that is certain.
		err = s.Swap(t.Context(), &ledger.Record{Key: "down"})
		assert.Error(t, err)
		assert.NotErrorIs(t, err, ledger.ErrUnknown)
		server.Up()
		require.Eventually(t, func() bool { _, err := s.Now(t.Context()); return err == nil }, long, 10*time.Millisecond)
	}
	goOn()
	cancel()
	now, err := s.Now(t.Context())
	require.NoError(t, err)
	put(t, s, ledger.Record{Key: "late", Queue: "q", Wake: now})
	for _, c := range []chan struct{}{woken, seen} {
		select {
		case <-c:
		case <-time.After(long):
			t.Fatal("who waited is not told")
		}
	}
	all.Wait()
	for i := range acknowledged {
		r, err := s.Load(t.Context(), fmt.Sprint("w", i))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(acknowledged[i].Load()), string(r.Body))
		assert.EqualValues(t, acknowledged[i].Load(), r.Rev, "each change was made once")
	}
	t.Logf("%d unknown, %d failed", unknown.Load(), failed.Load())
	assert.Positive(t, failed.Load()+unknown.Load(), "the crashes were noticed")
}

// A database that hangs fails calls that have no deadline, in bounded time.
func TestTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	network := newProxy(t, server)
	const patience = 2 * time.Second
	direct := open(t, url)
	r := put(t, direct, ledger.Record{Key: "k"})
	s := openWith(t, network.url(name)+"&pool_max_conns=1&connect_timeout=20", postgres.Settings{Patience: patience})
	loaded := func() bool { _, err := s.Load(t.Context(), "k"); return err == nil }
	require.Eventually(t, loaded, long, 10*time.Millisecond)
	network.becomes(holdsAnswers)
	began := time.Now()
	next := *r
	require.ErrorIs(t, s.Swap(t.Context(), &next), ledger.ErrUnknown)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			next := *r
			err := s.Swap(t.Context(), &next)
			assert.Error(t, err)
		})
		all.Go(func() {
			_, err := s.Load(t.Context(), "k")
			assert.Error(t, err)
		})
	}
	all.Wait()
	assert.Less(t, time.Since(began), 10*patience)
	network.becomes(none)
	require.Eventually(t, loaded, long, 10*time.Millisecond)
}

// A server that became a standby, or a role that may only read, is a plain error.
func TestTheDatabaseCanOnlyBeRead(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	s := open(t, url)
	r := put(t, s, ledger.Record{Key: "k"})
	server.Exec("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	disconnect(server, name)
	require.Eventually(t, func() bool {
		_, err := s.Now(t.Context())
		return err != nil && assert.ErrorContains(t, err, "can only be read")
	}, long, 10*time.Millisecond)
	err := s.Swap(t.Context(), r)
	require.ErrorContains(t, err, "read-only transaction")
	assert.NotErrorIs(t, err, ledger.ErrUnknown)
	_, err = s.Load(t.Context(), "k")
	require.NoError(t, err, "what can be read is read")
	server.Exec("ALTER DATABASE " + name + " SET default_transaction_read_only = off")
	disconnect(server, name)
	require.Eventually(t, func() bool { return s.Swap(t.Context(), r) == nil || r.Rev == 0 }, long, 10*time.Millisecond)
}

// One connection is enough for any number of callers.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	_, url := newDatabase(t, server)
	s := open(t, url+"&pool_max_conns=1")
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			key := fmt.Sprint("f", i)
			assert.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: key, Queue: key, Wake: time.Unix(1, 0)}))
			taken, err := s.Take(t.Context(), ledger.Take{Queues: []string{key}, Limit: 1, Lease: time.Hour})
			assert.NoError(t, err)
			assert.Len(t, taken, 1)
			for r, err := range s.Watch(t.Context(), key, 1) {
				assert.NoError(t, err)
				assert.EqualValues(t, 2, r.Rev)
				break
			}
		})
	}
	all.Wait()
}

// After all connections broke, nobody who only reads notices.
func TestBrokenConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	s := open(t, url)
	put(t, s, ledger.Record{Key: "k"})
	for range 3 {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				_, err := s.Load(t.Context(), "k")
				assert.NoError(t, err)
			})
		}
		all.Wait()
		disconnect(server, name)
	}
}

// Who gives up while records are being taken gets them nevertheless: nobody else would,
// until the lease is over.
func TestTakeIsNotAbandoned(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	network := newProxy(t, server)
	put(t, open(t, url), ledger.Record{Key: "k", Queue: "q", Wake: time.Unix(1, 0)})
	s := open(t, network.url(name)+"&default_query_exec_mode=exec&pool_max_conns=1")
	_, err := s.Load(t.Context(), "k") // it is connected, and nothing else is under way
	require.NoError(t, err)
	before := network.requests.Load()
	network.becomes(delaysAnswers)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		taken, err := s.Take(ctx, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
		assert.Len(t, taken, 1)
		done <- err
	}()
	network.sends(t, before)
	cancel()
	network.becomes(none)
	require.NoError(t, <-done)
	_, err = s.Take(ctx, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
	require.ErrorIs(t, err, context.Canceled)
}
