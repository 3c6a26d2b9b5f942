package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/store"
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
		{"no connection can be made", refuses, false, false},
	} {
		for method, write := range map[string]func(ctx context.Context, s store.Store, r *store.Record) error{
			"Write": func(ctx context.Context, s store.Store, r *store.Record) error {
				return s.Write(ctx, r, change("after"))
			},
			"Signal": func(ctx context.Context, s store.Store, r *store.Record) error {
				return s.Signal(ctx, r.ID, 1, change("after").Items...)
			},
			"Take": func(ctx context.Context, s store.Store, _ *store.Record) error {
				_, _, err := s.Take(ctx, taking(1))
				return err
			},
			"Renew": func(ctx context.Context, s store.Store, r *store.Record) error {
				_, err := s.Renew(ctx, []store.Held{{ID: r.ID}}, time.Minute)
				return err
			},
		} {
			t.Run(c.name+"/"+method, func(t *testing.T) {
				name, url := newDatabase(t, server)
				network := newProxy(t, server)
				direct := open(t, url)
				s := open(t, network.url(name)+"&pool_max_conns=1&default_query_exec_mode=exec")
				r := sample()
				r.Wake = time.Unix(1, 0)
				_, err := s.Check(t.Context()) // it is connected
				require.NoError(t, err)
				begin := change("before")
				if begin.Lease = time.Millisecond; method == "Renew" {
					begin.Lease = time.Hour
				}
				require.NoError(t, direct.Write(t.Context(), r, begin))
				time.Sleep(2 * time.Millisecond) // the lease is over
				original, err := direct.Load(t.Context(), r.ID)
				require.NoError(t, err)
				made := func() bool {
					now, err := direct.Load(t.Context(), r.ID)
					return err == nil && (now.Head != original.Head || now.Fence != original.Fence || !now.Until.Equal(original.Until))
				}

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				network.becomes(c.fault)
				if c.fault == refuses {
					_, err := s.Load(ctx, r.ID) // the connections that there were are used up first
					require.Error(t, err)
				}
				next, written := *original, make(chan error, 1)
				go func() { written <- write(ctx, s, &next) }()
				if c.fault == holdsAnswers {
					require.Eventually(t, made, long, time.Millisecond, "the change is made")
					cancel()
				}
				err = <-written
				require.Error(t, err)
				assert.Equal(t, c.unknown, errors.Is(err, store.ErrUnknown), "%v", err)
				assert.Equal(t, c.fault == holdsAnswers, errors.Is(err, context.Canceled), "%v", err)
				assert.NotErrorIs(t, err, store.ErrConflict)
				assert.Equal(t, *original, next)
				network.becomes(none)
				assert.Equal(t, c.made, made())
				require.Eventually(t, func() bool { _, err := s.Load(t.Context(), r.ID); return err == nil }, long, 10*time.Millisecond, "the store can be used")
			})
		}
	}
}

// Changes that go together in one transaction do not spoil one another, and each caller gets its own answer.
func TestOneChangeDoesNotSpoilOthers(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	_, url := newDatabase(t, server)
	s := open(t, url)
	const n = 64
	taken := store.ID{1, 2, 3}
	create(t, s, func(r *store.Record) { r.Request = taken })
	records := make([]*store.Record, n)
	for i := range records {
		records[i] = create(t, s)
	}
	for range 5 {
		var all sync.WaitGroup
		for i, r := range records {
			all.Go(func() {
				if i%3 == 0 {
					was := *r
					spoilt := was
					spoilt.Request = taken
					assert.ErrorIs(t, s.Write(t.Context(), &spoilt, change("x")), store.ErrConflict)
					assert.Equal(t, was.Head, spoilt.Head)
					return
				}
				assert.NoError(t, s.Write(t.Context(), r, change("x")))
			})
		}
		all.Wait()
	}
	for i, r := range records {
		l, err := s.Log(t.Context(), r.ID, 0, 100)
		require.NoError(t, err)
		want := 6
		if i%3 == 0 {
			want = 1
		}
		assert.EqualValues(t, want, l.Head)
		assert.Len(t, l.Items, want)
	}
}

// A database that hangs fails calls that have no deadline, in bounded time.
func TestTheDatabaseHangs(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	network := newProxy(t, server)
	const patience = 2 * time.Second
	r := create(t, open(t, url))
	s := openWith(t, network.url(name)+"&pool_max_conns=1&connect_timeout=20", postgres.Settings{Patience: patience})
	loaded := func() bool { _, err := s.Load(t.Context(), r.ID); return err == nil }
	require.Eventually(t, loaded, long, 10*time.Millisecond)
	network.becomes(holdsAnswers)
	began := time.Now()
	next := *r
	require.ErrorIs(t, s.Write(t.Context(), &next, change("x")), store.ErrUnknown)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			next := *r
			assert.Error(t, s.Write(t.Context(), &next, change("x")))
		})
		all.Go(func() {
			_, err := s.Load(t.Context(), r.ID)
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
	r := create(t, s)
	server.Exec("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	disconnect(server, name)
	require.Eventually(t, func() bool {
		_, err := s.Check(t.Context())
		return err != nil && assert.ErrorContains(t, err, "can only be read")
	}, long, 10*time.Millisecond)
	err := s.Write(t.Context(), r, change("x"))
	require.ErrorContains(t, err, "read-only transaction")
	assert.NotErrorIs(t, err, store.ErrUnknown)
	_, err = s.Load(t.Context(), r.ID)
	require.NoError(t, err, "what can be read is read")
	server.Exec("ALTER DATABASE " + name + " SET default_transaction_read_only = off")
	disconnect(server, name)
	require.Eventually(t, func() bool {
		return s.Write(t.Context(), r, change("x")) == nil || r.Head == 1 && func() bool {
			now, err := s.Load(t.Context(), r.ID)
			return err == nil && now.Head > 1
		}()
	}, long, 10*time.Millisecond)
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
			r := sample()
			r.Audience, r.Wake = fmt.Sprint("f", i), time.Unix(1, 0)
			assert.NoError(t, s.Write(t.Context(), r, change("x")))
			take := taking(1)
			take.Audience = r.Audience
			taken, _, err := s.Take(t.Context(), take)
			assert.NoError(t, err)
			assert.Len(t, taken, 1)
		})
	}
	all.Wait()
}

// After all connections broke, callers that only read do not notice.
func TestBrokenConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	s := open(t, url)
	r := create(t, s)
	for range 3 {
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				_, err := s.Load(t.Context(), r.ID)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		disconnect(server, name)
	}
}

// A caller that gives up while records are being taken gets them nevertheless: no other would,
// until the lease is over.
func TestTakeIsNotAbandoned(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	network := newProxy(t, server)
	create(t, open(t, url), func(r *store.Record) { r.Wake = time.Unix(1, 0) })
	s := open(t, network.url(name)+"&default_query_exec_mode=exec&pool_max_conns=1")
	_, err := s.Check(t.Context()) // it is connected, and nothing else is under way
	require.NoError(t, err)
	before := network.requests.Load()
	network.becomes(delaysAnswers)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		taken, _, err := s.Take(ctx, taking(1))
		assert.Len(t, taken, 1)
		done <- err
	}()
	network.sends(t, before)
	cancel()
	network.becomes(none)
	require.NoError(t, <-done)
	_, _, err = s.Take(ctx, taking(1))
	require.ErrorIs(t, err, context.Canceled)
}
