package ledger_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/ledgertest"
)

func TestMain(m *testing.M) {
	// Tests wait most of the time, each with data of its own. -parallel changes it.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	leaktest.Main(m)
}

func TestMemory(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(testing.TB) ledgertest.Harness {
		return ledgertest.Harness{Open: func() ledger.Store { return ledger.NewMemory(ledger.MemoryOptions{}) }, Single: true}
	})
}

// clock is one that moves by hand only.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time {
	return time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC).Add(time.Duration(c.offset.Load()))
}

func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

func TestMemoryWithAClock(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(testing.TB) ledgertest.Harness {
		c := &clock{}
		return ledgertest.Harness{
			Open:    func() ledger.Store { return ledger.NewMemory(ledger.MemoryOptions{Now: c.now}) },
			Single:  true,
			Advance: c.advance,
		}
	})
}

// In a bubble time passes at once, and to the microsecond: who waits is woken neither
// before the time nor after it.
func TestMemoryInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledger.NewMemory(ledger.MemoryOptions{})
		defer s.Close()
		start := time.Now()
		at := func(d time.Duration) time.Time { return start.Add(d) }
		require.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: "a", Queue: "q", Wake: at(14 * 24 * time.Hour), Keep: at(15 * 24 * time.Hour)}))
		go func() {
			time.Sleep(time.Hour)
			assert.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: "b", Queue: "q", Wake: at(7*time.Hour + time.Microsecond)}))
		}()
		take := ledger.Take{Queues: []string{"q"}, Limit: 9, Lease: 30 * 24 * time.Hour}
		for _, want := range []struct {
			key string
			at  time.Duration
		}{{"b", 7*time.Hour + time.Microsecond}, {"a", 14 * 24 * time.Hour}, {"b", 30*24*time.Hour + 7*time.Hour + time.Microsecond}} {
			got, err := s.Take(t.Context(), take)
			require.NoError(t, err)
			require.Len(t, got, 1)
			assert.Equal(t, want.key, got[0].Key)
			assert.Equal(t, want.at, time.Since(start))
		}
		for rec, err := range s.Watch(t.Context(), "a", 0) {
			require.NoError(t, err)
			if rec.Rev == 2 {
				go func() {
					time.Sleep(24 * time.Hour)
					assert.NoError(t, s.Swap(t.Context(), rec))
				}()
				continue
			}
			assert.Equal(t, 31*24*time.Hour+7*time.Hour+time.Microsecond, time.Since(start))
			break
		}
		n, err := s.Forget(t.Context(), 10)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
	})
}

// Many wait, and none is left behind, nor a goroutine of the store's own.
func TestMemoryWhoWaitsIsToldOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		s := ledger.NewMemory(ledger.MemoryOptions{})
		require.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: "a", Queue: "q", Wake: time.Now().Add(time.Hour)}))
		assert.Equal(t, before, runtime.NumGoroutine(), "a store started goroutines")
		ended := make(chan error, 20)
		for range 10 {
			go func() {
				_, err := s.Take(context.Background(), ledger.Take{Queues: []string{"q", "r"}, Limit: 1, Lease: time.Hour})
				ended <- err
			}()
			go func() {
				for _, err := range s.Watch(context.Background(), "a", 1) {
					ended <- err
				}
			}()
		}
		synctest.Wait()
		require.Empty(t, ended)
		require.NoError(t, s.Close())
		synctest.Wait()
		require.Len(t, ended, 20)
		for range 20 {
			assert.ErrorIs(t, <-ended, ledger.ErrClosed)
		}
	})
}

// A clock that is moved by hand, or that somebody sets, moves no timers.
func TestMemoryLooksAtItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{}
		s := ledger.NewMemory(ledger.MemoryOptions{Now: c.now})
		defer s.Close()
		require.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: "a", Queue: "q", Wake: c.now().Add(24 * time.Hour)}))
		go func() {
			time.Sleep(time.Hour)
			c.advance(24 * time.Hour)
		}()
		start := time.Now()
		_, err := s.Take(t.Context(), ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Hour})
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(start), time.Hour+time.Second)
	})
}

// Who has waited, and went, is not remembered.
func TestMemoryForgetsWhoWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ledger.NewMemory(ledger.MemoryOptions{})
		defer s.Close()
		const n = 5000
		before := heapInUse()
		for i := range n {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := s.Take(ctx, ledger.Take{Queues: []string{fmt.Sprint("q", i)}, Limit: 1, Lease: time.Hour})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
			for _, err := range s.Watch(ctx, fmt.Sprint("key", i), 0) {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			cancel()
		}
		assert.Less(t, heapInUse()-before, int64(100*n))
	})
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what sync.Pool keeps goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What is forgotten frees its memory, also that of the maps and trees it was in.
func TestMemoryIsFlat(t *testing.T) {
	s := ledger.NewMemory(ledger.MemoryOptions{})
	defer s.Close()
	const n = 10_000
	past := time.Now().Add(-time.Hour)
	before := heapInUse()
	for range 3 {
		for i := range n {
			r := &ledger.Record{Key: fmt.Sprint("key", i), Queue: fmt.Sprint("q", i/10), Owner: fmt.Sprint("owner", i), Wake: past, Keep: past}
			require.NoError(t, s.Swap(t.Context(), r, ledger.Item{N: 1, Body: make([]byte, 100)}))
		}
		full := heapInUse() - before
		require.Greater(t, full, int64(n*100), "what the records take, or this test sees nothing")
		forgotten, err := s.Forget(t.Context(), n)
		require.NoError(t, err)
		require.Equal(t, n, forgotten)
		empty := heapInUse() - before
		assert.Lessf(t, empty, full/50, "what is left of %d bytes", full)
	}
}
