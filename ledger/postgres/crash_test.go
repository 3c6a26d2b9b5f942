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
	"github.com/mcpsaga/mcpsaga/internal/store"
)

// The database crashes under load, twice, and comes back: nothing that was acknowledged is lost, each
// change is made once, listeners hear of what is written afterwards, and the store is not opened anew.
func TestTheDatabaseCrashes(t *testing.T) {
	t.Parallel()
	server := postgrestest.Run(t, "fsync=off") // the machine goes on, and writes what it was given
	_, url := newDatabase(t, server)
	s, other := open(t, url), open(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var unknown, failed atomic.Int64
	acknowledged := make([]atomic.Int64, 8)
	ids := make([]store.ID, len(acknowledged))
	for i := range acknowledged {
		r := create(t, s, func(r *store.Record) { r.State = []byte("0") })
		ids[i] = r.ID
		all.Go(func() {
			for n := int64(1); ctx.Err() == nil; {
				r.State = fmt.Append(nil, n)
				switch err := s.Write(context.WithoutCancel(ctx), r, change("x")); {
				case err == nil:
					acknowledged[i].Store(n)
					n++
				case errors.Is(err, store.ErrUnknown):
					unknown.Add(1)
					for {
						now, err := s.Load(context.WithoutCancel(ctx), r.ID)
						if err == nil {
							if r = now; string(r.State) == fmt.Sprint(n) {
								acknowledged[i].Store(n)
								n++
							}
							break
						}
						time.Sleep(5 * time.Millisecond)
					}
				case errors.Is(err, store.ErrConflict):
					assert.NoError(t, err, "a record that no other writes")
					return
				default:
					failed.Add(1)
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	heard := listen(t, other)
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
		_, err := s.Check(t.Context())
		assert.Error(t, err)
		assert.NotErrorIs(t, err, store.ErrUnknown)
		// It cannot be connected to any more, so that is certain.
		err = s.Write(t.Context(), sample(), change("x"))
		assert.Error(t, err)
		assert.NotErrorIs(t, err, store.ErrUnknown)
		server.Up()
		require.Eventually(t, func() bool { _, err := s.Check(t.Context()); return err == nil }, long, 10*time.Millisecond)
	}
	goOn()
	cancel()
	all.Wait()
	require.Eventually(t, func() bool { return len(listeners(t, server, "")) > 0 }, long, 20*time.Millisecond, "it listens again")
	require.Eventually(t, func() bool {
		r := create(t, s)
		time.Sleep(50 * time.Millisecond)
		return heard(r.ID) == 1
	}, long, time.Millisecond, "it hears again")
	for i, id := range ids {
		r, err := s.Load(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(acknowledged[i].Load()), string(r.State))
		assert.EqualValues(t, acknowledged[i].Load()+1, r.Head, "each change was made once")
		l, err := s.Log(t.Context(), id, 0, 1<<20)
		require.NoError(t, err)
		assert.Len(t, l.Items, int(r.Head))
	}
	t.Logf("%d unknown, %d failed", unknown.Load(), failed.Load())
	assert.Positive(t, failed.Load()+unknown.Load(), "the crashes were noticed")
}
