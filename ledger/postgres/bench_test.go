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
)

// BenchmarkWrite creates records and commits to them, with a state of a kilobyte and an item each, by 1, 16 and 64
// goroutines.
func BenchmarkWrite(b *testing.B) {
	server := postgrestest.Run(b) // with its own settings, so each commit is synced
	_, url := newDatabase(b, server)
	s := open(b, url)
	change := store.Change{Items: []store.Item{{Kind: "k", Body: make([]byte, 100)}}, Lease: time.Minute}
	fresh := func() *store.Record {
		r := sample()
		r.State, r.Fence, r.Wake = make([]byte, 1024), 1, time.Now()
		return r
	}
	together := func(b *testing.B, callers int, write func(caller int) error) {
		var all sync.WaitGroup
		var next atomic.Int64
		for caller := range callers {
			all.Go(func() {
				for next.Add(1) <= int64(b.N) {
					if err := write(caller); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	}
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("create/%d", callers), func(b *testing.B) {
			together(b, callers, func(int) error { return s.Write(b.Context(), fresh(), change) })
		})
		b.Run(fmt.Sprintf("commit/%d", callers), func(b *testing.B) {
			records := make([]*store.Record, callers)
			for i := range callers {
				records[i] = fresh()
				require.NoError(b, s.Write(b.Context(), records[i], change))
			}
			b.ResetTimer()
			together(b, callers, func(i int) error {
				records[i].Wake = time.Now()
				return s.Write(b.Context(), records[i], change)
			})
		})
	}
}
