package main

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkLedger is a saga of the tools that use a ledger, on SQLite, by 16 at once.
func BenchmarkLedger(b *testing.B) {
	for _, tool := range []string{"once", "acting"} {
		b.Run(tool, func(b *testing.B) {
			h := ledgerServer([]string{"sqlite:" + filepath.Join(b.TempDir(), "ledger.db")})
			var begun atomic.Int64
			var group sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range 16 {
				group.Go(func() {
					send := reusing(h)
					for begun.Add(1) <= int64(b.N) {
						if err := try(func() { asking(tool).all(send, rounds...) }); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N*batchChain)/b.Elapsed().Seconds(), "turns/s")
		})
	}
}
