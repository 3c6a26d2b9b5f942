package sqlite_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// BenchmarkWrite creates records and replaces them, with a state of 1 KiB and an item of 100 bytes, by 1, 16
// and 64 goroutines. All that is indexed is set, as sagas do.
func BenchmarkWrite(b *testing.B) {
	for _, c := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("create/%d", c), func(b *testing.B) { benchWrite(b, c, false) })
		b.Run(fmt.Sprintf("replace/%d", c), func(b *testing.B) { benchWrite(b, c, true) })
	}
}

func benchWrite(b *testing.B, c int, replace bool) {
	ctx := b.Context()
	s, err := sqlite.Open(ctx, somePath(b))
	require.NoError(b, err)
	defer s.Close()
	change := store.Change{Items: []store.Item{{Kind: "committed", Body: make([]byte, 100)}}}
	fresh := func() *store.Record {
		r := sample(randomID(), 1024)
		r.Owner, r.Account, r.Summary = randomID(), randomID(), make([]byte, 50)
		r.Wake, r.Keep = time.Now().Add(time.Hour), time.Now().Add(48*time.Hour)
		return r
	}
	records := make([]*store.Record, c)
	for i := range records {
		records[i] = fresh()
		require.NoError(b, s.Write(ctx, records[i], change))
	}
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for w := range c {
		all.Go(func() {
			for r := records[w]; next.Add(1) <= int64(b.N); {
				if !replace {
					r = fresh()
				} else {
					r.Wake = r.Wake.Add(time.Second)
				}
				if err := s.Write(ctx, r, change); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
