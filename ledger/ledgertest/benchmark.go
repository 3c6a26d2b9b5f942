package ledgertest

import (
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Benchmark measures how fast one handle on a store creates records with bodies of 1 KiB,
// and changes them, with 1, 16 and 64 calls at once. Start is called for each measurement.
func Benchmark(b *testing.B, start func(t testing.TB) Harness) {
	for _, what := range []string{"create", "update"} {
		for _, inFlight := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", what, inFlight), func(b *testing.B) {
				r := newRig(b, start(b), late)
				benchmark(b, r, what == "create", inFlight)
			})
		}
	}
}

func benchmark(b *testing.B, r *rig, create bool, inFlight int) {
	s := r.open()
	body := make([]byte, 1024)
	rand.Read(body)
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for i := range inFlight {
		all.Go(func() {
			rec := ledger.Record{Key: fmt.Sprint(i), Owner: "o", Body: body}
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				if create {
					rec.Key, rec.Rev = fmt.Sprintf("%d-%d", i, n), 0
				}
				if err := s.Swap(b.Context(), &rec); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "swaps/s")
}
