package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
)

// TestSpeed compares changes through the store with plain statements of pgx, in one run. It
// only measures: SAGA_MEASURE is for how long each, such as 3s.
func TestSpeed(t *testing.T) {
	each, err := time.ParseDuration(os.Getenv("SAGA_MEASURE"))
	if err != nil {
		t.Skip("SAGA_MEASURE does not say for how long")
	}
	server := postgrestest.Run(t) // with its own settings: fsync is on
	pool, err := pgxpool.New(t.Context(), server.DSN()+" pool_max_conns=64")
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `CREATE TABLE plain (key text PRIMARY KEY, rev bigint, body bytea)`)
	require.NoError(t, err)
	store, err := postgres.Open(t.Context(), server.DSN()+" default_query_exec_mode="+cmp.Or(os.Getenv("SAGA_MEASURE_MODE"), "cache_statement"))
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	body := make([]byte, 1024)
	var serial atomic.Int64
	rate := func(n int, one func(worker int) error) float64 {
		var all sync.WaitGroup
		var done atomic.Int64
		end := time.Now().Add(each)
		for worker := range n {
			all.Go(func() {
				for time.Now().Before(end) {
					require.NoError(t, one(worker))
					done.Add(1)
				}
			})
		}
		all.Wait()
		return float64(done.Load()) / each.Seconds()
	}
	ctx := context.Background()
	for _, n := range []int{1, 16, 64} {
		plainCreate := rate(n, func(int) error {
			_, err := pool.Exec(ctx, `INSERT INTO plain VALUES ($1, 1, $2)`, fmt.Sprint("p", serial.Add(1)), body)
			return err
		})
		create := rate(n, func(int) error {
			return store.Swap(ctx, &ledger.Record{Key: fmt.Sprint("k", serial.Add(1)), Body: body, Queue: "q", Owner: "o", Wake: time.Now().Add(time.Hour), Keep: time.Now().Add(time.Hour)})
		})
		records := make([]*ledger.Record, n)
		for i := range records {
			records[i] = &ledger.Record{Key: fmt.Sprint("u", n, "-", i), Body: body, Queue: "q", Owner: "o"}
			require.NoError(t, store.Swap(ctx, records[i]))
			_, err := pool.Exec(ctx, `INSERT INTO plain VALUES ($1, 1, $2)`, fmt.Sprint("w", n, "-", i), body)
			require.NoError(t, err)
		}
		plainUpdate := rate(n, func(i int) error {
			_, err := pool.Exec(ctx, `UPDATE plain SET rev = rev + 1, body = $2 WHERE key = $1`, fmt.Sprint("w", n, "-", i), body)
			return err
		})
		update := rate(n, func(i int) error { return store.Swap(ctx, records[i]) })
		claim := rate(n, func(i int) error {
			records[i].Wake = time.Now().Add(time.Hour)
			return store.Swap(ctx, records[i])
		})
		load := rate(n, func(i int) error { _, err := store.Load(ctx, records[i].Key); return err })
		t.Logf("%2d in flight: create %5.0f/s plain, %5.0f/s (%.2f); update %5.0f/s plain, %5.0f/s (%.2f), with a new wake %5.0f/s; load %5.0f/s",
			n, plainCreate, create, create/plainCreate, plainUpdate, update, update/plainUpdate, claim, load)
	}
}
