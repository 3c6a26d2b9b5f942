package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// BenchmarkSwap compares changes through the store with statements that pgx executes one by
// one on as many connections as there are callers, in a table of a key, a number and a
// body. The two take turns, so that both see the same machine.
func BenchmarkSwap(b *testing.B) {
	server := postgrestest.Run(b) // with its own settings, so each commit is synced
	_, url := newDatabase(b, server)
	pool, err := pgxpool.New(b.Context(), url+"&pool_max_conns=64")
	require.NoError(b, err)
	defer pool.Close()
	_, err = pool.Exec(b.Context(), `CREATE TABLE plain (key text PRIMARY KEY, rev bigint, body bytea)`)
	require.NoError(b, err)
	s := open(b, url)
	body := make([]byte, 1024)
	const each = 40
	for _, callers := range []int{1, 16, 64} {
		together := func(what string, spent *time.Duration, call func(caller int) error) {
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
				require.NoError(b, *err, what)
			}
		}
		report := func(b *testing.B, plain, store time.Duration) {
			ops := float64(b.N * each * callers)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ops/plain.Seconds(), "plain/s")
			b.ReportMetric(ops/store.Seconds(), "store/s")
			b.ReportMetric(plain.Seconds()/store.Seconds(), "ratio")
		}
		b.Run(fmt.Sprintf("create/%d", callers), func(b *testing.B) {
			var plain, store time.Duration
			for b.Loop() {
				together("plain", &plain, func(int) error {
					_, err := pool.Exec(b.Context(), `INSERT INTO plain VALUES ($1, 1, $2)`, fmt.Sprint(serial.Add(1)), body)
					return err
				})
				together("store", &store, func(int) error {
					return s.Swap(b.Context(), &ledger.Record{Key: fmt.Sprint(serial.Add(1)), Body: body, Queue: "q", Owner: "o", Wake: time.Unix(1<<32, 0)})
				})
			}
			report(b, plain, store)
		})
		b.Run(fmt.Sprintf("update/%d", callers), func(b *testing.B) {
			var plain, store time.Duration
			records := make([]*ledger.Record, callers)
			for i := range records {
				records[i] = put(b, s, ledger.Record{Key: fmt.Sprint("u", serial.Add(1)), Queue: "q", Owner: "o", Body: body})
				_, err := pool.Exec(b.Context(), `INSERT INTO plain VALUES ($1, 1, $2)`, records[i].Key, body)
				require.NoError(b, err)
			}
			for b.Loop() {
				together("plain", &plain, func(i int) error {
					_, err := pool.Exec(b.Context(), `UPDATE plain SET rev = rev + 1, body = $2 WHERE key = $1`, records[i].Key, body)
					return err
				})
				together("store", &store, func(i int) error {
					records[i].Wake = time.Unix(1<<32+int64(records[i].Rev), 0)
					return s.Swap(b.Context(), records[i])
				})
			}
			report(b, plain, store)
		})
	}
}
