package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// together calls f n times at once, each with one of some handles.
func (r *rig) together(n int, f func(i int, s ledger.Store)) {
	r.Helper()
	handles := []ledger.Store{r.open(), r.open(), r.open()}
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			defer r.report()
			<-start
			f(i, handles[i%len(handles)])
		})
	}
	close(start)
	all.Wait()
}

// report makes a panic in a goroutine a failure of its check, and lets the others run.
func (r *rig) report() {
	if p := recover(); p != nil {
		r.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

var concurrencyChecks = []check{
	{"concurrency/one creates", func(r *rig) {
		const n = 1000
		var winners, losers atomic.Int64
		var won struct {
			body  []byte
			items []ledger.Item
		}
		r.together(n, func(i int, s ledger.Store) {
			body := fmt.Append(nil, i)
			var items []ledger.Item // with every other, as numbers of items conflict as well
			if i%2 == 0 {
				items = []ledger.Item{{N: 1, Body: body}}
			}
			switch err := s.Swap(r.ctx, &ledger.Record{Key: "k", Body: body}, items...); {
			case err == nil:
				if winners.Add(1) == 1 {
					won.body, won.items = body, items
				}
			case errors.Is(err, ledger.ErrConflict):
				losers.Add(1)
			default:
				assert.NoError(r, err)
			}
		})
		require.EqualValues(r, 1, winners.Load(), "how many of %d goroutines created one record", n)
		require.EqualValues(r, n-1, losers.Load(), "how many of them were told so")
		r.unchanged(r.open(), &ledger.Record{Key: "k", Rev: 1, Body: won.body}, won.items, "many tried to create it")
	}},
	{"concurrency/nothing is lost", func(r *rig) {
		const writers, each = 12, 25
		s := r.open()
		r.put(s, ledger.Record{Key: "k", Body: []byte("0")})
		r.together(writers, func(i int, s ledger.Store) {
			for done := 0; done < each; {
				rec, err := s.Load(r.ctx, "k")
				if !assert.NoError(r, err, "Load") {
					return
				}
				var n int
				fmt.Sscan(string(rec.Body), &n)
				if !assert.EqualValues(r, n+1, rec.Rev, "a body that counts is not of its revision") {
					return
				}
				rec.Body = fmt.Append(nil, n+1)
				var items []ledger.Item // with every other change, as numbers of items conflict as well
				if n%2 == 1 {
					items = []ledger.Item{{N: uint64(n + 1), Body: fmt.Append(nil, i)}}
				}
				switch err := s.Swap(r.ctx, rec, items...); {
				case err == nil:
					done++
				case !errors.Is(err, ledger.ErrConflict):
					assert.NoError(r, err, "Swap")
					return
				}
			}
		})
		rec := r.load(s, "k")
		require.Equal(r, fmt.Sprint(writers*each), string(rec.Body), "a counter that %d writers moved by %d each", writers, each)
		items, err := s.Items(r.ctx, "k", 0, 2*writers*each)
		require.NoError(r, err)
		require.Len(r, items, writers*each/2, "items that were written with the counter")
	}},
	{"concurrency/many records", func(r *rig) {
		const writers, each = 32, 20
		s := r.open()
		past := r.now(s).Add(-time.Hour)
		r.together(writers, func(i int, s ledger.Store) {
			for j := range each {
				rec := ledger.Record{Key: fmt.Sprintf("k%d-%d", i, j), Owner: "o", Queue: "q", Body: fmt.Append(nil, i), Wake: past}
				if !assert.NoError(r, s.Swap(r.ctx, &rec), "Swap of a record that nobody else writes") {
					return
				}
				rec.Body = fmt.Append(nil, j)
				if !assert.NoError(r, s.Swap(r.ctx, &rec), "Swap of a record that nobody else writes") {
					return
				}
				got, err := s.Load(r.ctx, rec.Key)
				assert.NoError(r, err, "Load")
				assert.EqualValues(r, 2, got.Rev, "a record that was just written twice")
			}
		})
		r.count(s, "o", 10*writers*each, writers*each, "after many wrote at once")
	}},
	{"concurrency/nobody takes the same", func(r *rig) {
		const n, takers = 150, 9
		s := r.open()
		past := r.now(s).Add(-time.Hour)
		for i := range n {
			r.put(s, ledger.Record{Key: fmt.Sprint(i), Queue: fmt.Sprint("q", i%2), Wake: past.Add(time.Duration(i) * time.Second)})
		}
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		var mu sync.Mutex
		holders := map[string]int{}
		left := n
		r.together(takers, func(i int, s ledger.Store) {
			for {
				records, err := s.Take(ctx, ledger.Take{Queues: []string{"q0", "q1"}, Limit: 1 + i%4, Lease: time.Hour})
				if err != nil {
					assert.ErrorIs(r, err, context.Canceled, "Take")
					return
				}
				for _, rec := range records {
					mu.Lock()
					holders[rec.Key]++
					if left--; left == 0 {
						time.AfterFunc(100*time.Millisecond, cancel) // to see what is taken too often
					}
					mu.Unlock()
					rec.Wake, rec.Queue = time.Time{}, ""
					assert.NoError(r, s.Swap(r.ctx, rec), "a swap by who has taken the record")
				}
			}
		})
		require.Len(r, holders, n, "how many records were taken")
		for key, times := range holders {
			require.Equalf(r, 1, times, "how many times %s was taken within its lease", key)
		}
	}},
	{"concurrency/the old taker is fenced", func(r *rig) {
		const n, takers, lease = 20, 6, 100 * time.Millisecond
		s := r.open()
		for i := range n {
			r.put(s, ledger.Record{Key: fmt.Sprint(i), Queue: "q", Wake: r.now(s)})
		}
		if r.Advance != nil { // leases end while there is somebody who waits for them
			defer every(lease/5, func() { r.Advance(lease / 5) })()
		}
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		var finished, fenced atomic.Int64
		var mu sync.Mutex
		by := map[string]int{}
		r.together(takers, func(i int, s ledger.Store) {
			for slow := i%2 == 0; ; {
				records, err := s.Take(ctx, ledger.Take{Queues: []string{"q"}, Limit: 3, Lease: lease})
				if err != nil {
					assert.ErrorIs(r, err, context.Canceled, "Take")
					return
				}
				if slow {
					time.Sleep(2 * lease)
				}
				for _, rec := range records {
					rec.Wake = time.Time{}
					switch err := s.Swap(r.ctx, rec); {
					case errors.Is(err, ledger.ErrConflict):
						fenced.Add(1)
					case assert.NoError(r, err, "Swap"):
						mu.Lock()
						by[rec.Key]++
						mu.Unlock()
						if finished.Add(1) == n {
							cancel()
						}
					default:
						return
					}
				}
			}
		})
		require.Len(r, by, n, "how many records somebody finished (%d swaps were fenced)", fenced.Load())
		for key, times := range by {
			require.Equalf(r, 1, times, "how many takers could write %s", key)
		}
	}},
	{"concurrency/readers", func(r *rig) {
		s := r.open()
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		r.put(s, ledger.Record{Key: "k", Body: []byte("1"), Owner: "o1"}, ledger.Item{N: 1})
		r.together(8, func(i int, s ledger.Store) {
			if i == 0 {
				defer cancel()
				for rev := uint64(1); rev <= 60; rev++ {
					rec := ledger.Record{Key: "k", Rev: rev, Body: fmt.Append(nil, rev+1), Owner: fmt.Sprint("o", rev+1)}
					if !assert.NoError(r, s.Swap(r.ctx, &rec, ledger.Item{N: rev + 1}), "Swap of a record that nobody else writes") {
						return
					}
				}
				return
			}
			last := uint64(0)
			for ctx.Err() == nil {
				rec, err := s.Load(r.ctx, "k")
				if !assert.NoError(r, err, "Load") {
					return
				}
				assert.GreaterOrEqual(r, rec.Rev, last, "a handle read a revision older than one that it had read")
				last = rec.Rev
				assert.Equal(r, fmt.Sprint(rec.Rev), string(rec.Body), "a record is of one revision, and its body of another")
				assert.Equal(r, fmt.Sprint("o", rec.Rev), rec.Owner, "a record is of one revision, and its owner of another")
				items, err := s.Items(r.ctx, "k", rec.Rev-1, 1)
				assert.NoError(r, err, "Items")
				assert.Len(r, items, 1, "the item of a revision that was read")
			}
		})
	}},
}
