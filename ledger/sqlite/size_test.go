//go:build linux

package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// The -wal file does not grow with the number of changes, though others read all the time.
func TestLogIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("writes many times what the log may take")
	}
	path := somePath(t)
	s := opened(t, path)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	var dbs [2]*sql.DB
	for i := range dbs {
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		defer db.Close()
		db.SetMaxOpenConns(1)
		dbs[i] = db
	}
	readers.Go(func() {
		for i := 0; ; i++ { // at any time one of them reads, as the next begins before it ends
			_, err := dbs[i%2].Exec("BEGIN; SELECT count(*) FROM records")
			assert.NoError(t, err)
			if i > 0 {
				_, err = dbs[(i+1)%2].Exec("COMMIT")
				assert.NoError(t, err)
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	records := make([]ledger.Record, 32)
	// Who empties the log waits for those who read, but not for long: if they compute just then, it is
	// emptied later.
	inTime(t, "the log is small after much was written", func() bool {
		var writers sync.WaitGroup
		for w := range records {
			writers.Go(func() {
				r := &records[w]
				r.Key, r.Queue, r.Wake, r.Body = fmt.Sprint(w), "q", time.Now().Add(time.Hour), make([]byte, 8000)
				for range 150 {
					assert.NoError(t, s.Swap(t.Context(), r))
				}
			})
		}
		writers.Wait()
		t.Logf("%d bytes after writing %d", size(t, path+"-wal"), len(records)*150*8000)
		return size(t, path+"-wal") < 24<<20
	})
	close(stop)
	readers.Wait()
}

// What is forgotten makes room for others, and is given back to the file system.
func TestFileShrinks(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	s := opened(t, path)
	var all sync.WaitGroup
	for w := range 20 {
		all.Go(func() {
			r := &ledger.Record{Key: fmt.Sprint(w), Keep: time.Now().Add(-time.Hour), Body: make([]byte, 500_000)}
			assert.NoError(t, s.Swap(t.Context(), r, ledger.Item{N: 1, Body: make([]byte, 500_000)}))
		})
	}
	all.Wait()
	require.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: "stays", Body: make([]byte, 1_000_000)}))
	forgotten := 0
	for range 10 {
		n, err := s.Forget(t.Context(), 7)
		require.NoError(t, err)
		forgotten += n
	}
	assert.Equal(t, 20, forgotten)
	assert.Equal(t, "0", query(t, path, "SELECT count(*) FROM items"))
	require.NoError(t, s.Close())
	t.Logf("%d bytes", size(t, path))
	assert.Less(t, size(t, path), int64(8<<20))
	r, err := opened(t, path).Load(t.Context(), "stays")
	require.NoError(t, err)
	assert.Len(t, r.Body, 1_000_000)
}

// A million records take neither memory nor time.
func TestMillionRecords(t *testing.T) {
	if os.Getenv("LEDGER_MILLION") == "" {
		t.Skip("set LEDGER_MILLION=1")
	}
	const million = 1_000_000
	path := somePath(t)
	require.NoError(t, opened(t, path).Close())
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(OFF)&_pragma=cache_size(-400000)")
	require.NoError(t, err)
	_, err = db.Exec(`INSERT INTO records (key, rev, queue, owner, wake, keep, body)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT printf('%09d', i), 1, 'queue' || (i % 10), 'owner' || (i % 1000), 4e15 + i, 4e15, randomblob(400) FROM n`, million)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	t.Logf("file: %d MB", size(t, path)>>20)
	before := resident(t)

	begin := time.Now()
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	_, err = s.Now(t.Context())
	require.NoError(t, err)
	took := time.Since(begin)
	t.Logf("opened in %v", took)
	assert.Less(t, took, 2*time.Second)
	defer s.Close()

	use := func(name string, n int, do func(i int) error) {
		begin := time.Now()
		for i := range n {
			require.NoError(t, do(i), name)
		}
		t.Logf("%s: %v each; %d MB more than before", name, time.Since(begin)/time.Duration(n), (resident(t)-before)>>20)
	}
	ctx, after := t.Context(), ""
	use("List", 200, func(int) error {
		list, err := s.List(ctx, []string{"queue1", "queue2"}, after, 100)
		require.Len(t, list, 100)
		after = list[99].Key
		return err
	})
	use("Count", 200, func(i int) error {
		n, err := s.Count(ctx, fmt.Sprint("owner", i), 500)
		assert.Equal(t, 500, n)
		return err
	})
	use("Load", 2000, func(int) error {
		_, err := s.Load(ctx, randomKey())
		assert.Equal(t, ledger.ErrNotFound, err)
		return nil
	})
	use("Swap", 2000, func(int) error {
		past := time.Now().Add(-time.Hour)
		return s.Swap(ctx, &ledger.Record{Key: randomKey(), Queue: "queue3", Owner: "owner3", Wake: past, Keep: past, Body: make([]byte, 1000)})
	})
	use("Take", 200, func(int) error {
		got, err := s.Take(ctx, ledger.Take{Queues: strings.Split("queue1 queue2 queue3 queue4", " "), Limit: 10, Lease: time.Hour})
		assert.Len(t, got, 10)
		return err
	})
	use("Forget", 20, func(int) error {
		n, err := s.Forget(ctx, 100)
		assert.Equal(t, 100, n)
		return err
	})
	assert.Less(t, resident(t)-before, 100<<20)
}
