package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger"
	before "github.com/mcpsaga/mcpsaga/ledger/postgres"
)

// BenchmarkWrite compares creations and commits, each of a kilobyte with an item, with those of package
// ledger/postgres. The two take turns, so that both see the same machine.
func BenchmarkWrite(b *testing.B) {
	server := postgrestest.Run(b) // with its own settings, so each commit is synced
	_, url := newDatabase(b, server)
	s := open(b, url)
	_, url = newDatabase(b, server)
	old, err := before.Open(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, old.Close()) })
	body, note := make([]byte, 1024), make([]byte, 100)
	const each = 60
	together := func(callers int, spent *time.Duration, call func(caller int) error) {
		began := time.Now()
		var all sync.WaitGroup
		var failed atomic.Pointer[error]
		for caller := range callers {
			all.Go(func() {
				for range each {
					if err := call(caller); err != nil {
						failed.Store(&err)
					}
				}
			})
		}
		all.Wait()
		*spent += time.Since(began)
		if err := failed.Load(); err != nil {
			require.NoError(b, *err)
		}
	}
	report := func(b *testing.B, callers int, before, now time.Duration) {
		ops := float64(b.N * each * callers)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(ops/before.Seconds(), "before/s")
		b.ReportMetric(ops/now.Seconds(), "now/s")
	}
	change := store.Change{Items: []store.Item{{Kind: "k", Body: note}}, Lease: time.Minute}
	fresh := func() *store.Record {
		r := sample()
		r.State, r.Fence, r.Wake = body, 1, time.Now()
		return r
	}
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("create/%d", callers), func(b *testing.B) {
			var was, is time.Duration
			for b.Loop() {
				together(callers, &was, func(int) error {
					r := &ledger.Record{Key: fmt.Sprint(serial.Add(1)), Body: body, Queue: "q", Owner: "o", Wake: time.Now()}
					return old.Swap(b.Context(), r, ledger.Item{N: 1, Body: note})
				})
				together(callers, &is, func(int) error { return s.Write(b.Context(), fresh(), change) })
			}
			report(b, callers, was, is)
		})
		b.Run(fmt.Sprintf("commit/%d", callers), func(b *testing.B) {
			var was, is time.Duration
			olds, news := make([]*ledger.Record, callers), make([]*store.Record, callers)
			for i := range callers {
				olds[i] = &ledger.Record{Key: fmt.Sprint(serial.Add(1)), Body: body, Queue: "q", Owner: "o"}
				require.NoError(b, old.Swap(b.Context(), olds[i]))
				news[i] = fresh()
				require.NoError(b, s.Write(b.Context(), news[i], change))
			}
			for b.Loop() {
				together(callers, &was, func(i int) error {
					olds[i].Wake = time.Now()
					return old.Swap(b.Context(), olds[i], ledger.Item{N: olds[i].Rev + 1, Body: note})
				})
				together(callers, &is, func(i int) error {
					news[i].Wake = time.Now()
					return s.Write(b.Context(), news[i], change)
				})
			}
			report(b, callers, was, is)
		})
	}
}
