package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Writes of the same moment share a transaction, also with the first that comes, while nothing is written
// yet.
func TestWritesShareATransaction(t *testing.T) {
	// On one processor it is certain which comes first: the writer is woken by the first write, before
	// the others are made.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	inTime(t, "most rounds are one transaction each", func() bool {
		path := somePath(t)
		s := opened(t, path)
		const rounds, writers = 10, 8
		before := commits(t, path)
		for round := range rounds {
			time.Sleep(5 * time.Millisecond) // until the writer waits
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() { assert.NoError(t, put(t.Context(), s, fmt.Sprint(round, " ", w), 0)) })
			}
			all.Wait()
		}
		made := commits(t, path) - before
		t.Logf("%d transactions for %d rounds", made, rounds)
		return made <= rounds*3/2
	})
}

// inTime repeats a measurement until it comes out as it must. How long something takes at least is
// for the code to say; what comes on top, as other programs compute meanwhile, differs from
// one time to the next.
func inTime(t *testing.T, what string, measure func() (good bool)) {
	t.Helper()
	for end := time.Now().Add(long); !measure(); {
		require.True(t, time.Now().Before(end), "not once within a minute: %s", what)
	}
}

// A write whose context ends says truly whether it was made, also while it is queued.
func TestContextsEndAtAnyMoment(t *testing.T) {
	s := opened(t, somePath(t))
	outcomes := map[string]error{}
	made := 0
	// How long a write takes depends on the disk, so contexts last longer until some were in time.
	for longest := time.Millisecond; made == 0 && longest < time.Minute; longest *= 2 {
		var mu sync.Mutex
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				for i := range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(longest))
					name := fmt.Sprint(int(longest/time.Millisecond), " ", w, " ", i)
					err := put(ctx, s, name, 0)
					cancel()
					mu.Lock()
					if outcomes[name] = err; err == nil {
						made++
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
	}
	for name, outcome := range outcomes {
		err := load(t.Context(), s, name)
		if outcome == nil {
			assert.NoError(t, err, "%s was acknowledged", name)
		} else {
			assert.Equal(t, context.DeadlineExceeded, outcome)
			assert.ErrorIs(t, err, store.ErrNotFound, "%s was refused", name)
		}
	}
	t.Logf("made %d of %d", made, len(outcomes))
	assert.NotEqual(t, made, len(outcomes))
}

// What is acknowledged while the store is closed is there, and what is refused is not.
func TestCloseWhileBusy(t *testing.T) {
	path := somePath(t)
	s := opened(t, path)
	type outcome struct {
		name string
		err  error
	}
	var mu sync.Mutex
	var outcomes []outcome
	busy := make(chan struct{})
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := 0; ; i++ {
				o := outcome{name: fmt.Sprint(w, " ", i)}
				o.err = put(context.Background(), s, o.name, 0)
				mu.Lock()
				if outcomes = append(outcomes, o); len(outcomes) == 50 {
					close(busy)
				}
				mu.Unlock()
				if o.err != nil {
					return
				}
			}
		})
	}
	<-busy
	for range 2 {
		all.Go(func() { assert.NoError(t, s.Close()) })
	}
	all.Wait()
	s = opened(t, path)
	refused := 0
	for _, o := range outcomes {
		err := load(t.Context(), s, o.name)
		if o.err == nil {
			assert.NoError(t, err, "%s was acknowledged", o.name)
		} else {
			refused++
			assert.ErrorIs(t, o.err, store.ErrClosed)
			assert.ErrorIs(t, err, store.ErrNotFound, "%s was refused", o.name)
		}
	}
	assert.Equal(t, 16, refused)
}

// One that fails does not take others of its transaction with it, nor what it has begun into the file.
func TestOthersOfTheTransaction(t *testing.T) {
	s := opened(t, somePath(t))
	require.NoError(t, put(t.Context(), s, "taken", 0))
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if i%2 == 0 {
				assert.NoError(t, put(t.Context(), s, fmt.Sprint(i), 10))
				return
			}
			full := sample(named(fmt.Sprint(i)), 10)
			full.Account = named("full")
			err := s.Write(t.Context(), full, store.Change{Items: one.Items, Most: 3})
			assert.True(t, err == nil || errors.Is(err, store.ErrFull), "%v", err)
			assert.ErrorIs(t, put(t.Context(), s, "taken", 10), store.ErrConflict)
		})
	}
	all.Wait()
	there := 0
	for i := range 40 {
		if err := load(t.Context(), s, fmt.Sprint(i)); err == nil {
			there++
		}
	}
	assert.Equal(t, 20+3, there)
}

// Those who listen hear of each write of their process, in order, and need not wait for a timer.
func TestListenersHearAtOnce(t *testing.T) {
	s := opened(t, somePath(t))
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan uint64, 1000), make(chan error)
	id := named("k")
	go func() {
		ended <- s.Listen(ctx, func(changed store.ID, head uint64) {
			if changed == id {
				heard <- head
			}
		})
	}()
	time.Sleep(20 * time.Millisecond)
	r := sample(id, 0)
	var slowest time.Duration
	for i := range 100 {
		require.NoError(t, s.Write(t.Context(), r, one))
		begin := time.Now()
		assert.EqualValues(t, i+1, <-heard)
		slowest = max(slowest, time.Since(begin))
	}
	t.Logf("after the write at most %v", slowest)
	assert.Empty(t, heard)
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
}
