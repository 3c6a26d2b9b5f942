package sqlite_test

import (
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// The -wal file grows while another process reads for long, and is emptied after that, though others read
// all the time.
func TestLogIsBounded(t *testing.T) {
	path := somePath(t)
	s := opened(t, path)
	var dbs [2]*sql.DB
	for i := range dbs {
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		defer db.Close()
		db.SetMaxOpenConns(1)
		dbs[i] = db
	}
	_, err := dbs[0].Exec("BEGIN; SELECT count(*) FROM records")
	require.NoError(t, err)
	r := sample(named("large"), 1_000_000)
	for range 30 {
		rand.Read(r.State) // pages that stay as they are are not written
		require.NoError(t, s.Write(t.Context(), r, one))
	}
	assert.Greater(t, size(t, path+"-wal"), int64(30_000_000), "what is read stays")
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for i := 1; ; i++ {
			_, err := dbs[i%2].Exec("BEGIN; SELECT count(*) FROM records") // before the other ends
			assert.NoError(t, err)
			_, err = dbs[(i+1)%2].Exec("COMMIT")
			assert.NoError(t, err)
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	writes := 0
	inTime(t, "the log is empty", func() bool {
		writes++
		require.NoError(t, put(t.Context(), s, fmt.Sprint(writes), 10))
		time.Sleep(5 * time.Millisecond)
		return size(t, path+"-wal") < 1_000_000
	})
	t.Logf("after %d writes", writes)
	close(stop)
	reading.Wait()
}

// What is forgotten makes room for others, and is given back to the file system.
func TestFileShrinks(t *testing.T) {
	path := somePath(t)
	s := opened(t, path)
	var all sync.WaitGroup
	for w := range 20 {
		all.Go(func() {
			r := sample(named(fmt.Sprint(w)), 500_000)
			r.Keep = time.Now().Add(-time.Hour)
			assert.NoError(t, s.Write(t.Context(), r, store.Change{Items: []store.Item{{Kind: "k", Body: make([]byte, 500_000)}}}))
		})
	}
	all.Wait()
	require.NoError(t, put(t.Context(), s, "stays", 1_000_000))
	forgotten := 0
	for range 10 {
		n, err := s.Forget(t.Context(), 7)
		require.NoError(t, err)
		assert.LessOrEqual(t, n, 7)
		forgotten += n
	}
	assert.Equal(t, 20, forgotten)
	assert.Equal(t, "1", look(t, path, "SELECT count(*) FROM items"))
	assert.Equal(t, "1", look(t, path, "SELECT count(*) FROM states"))
	require.NoError(t, s.Close())
	t.Logf("%d bytes", size(t, path))
	assert.Less(t, size(t, path), int64(8<<20))
	r, err := opened(t, path).Load(t.Context(), named("stays"))
	require.NoError(t, err)
	assert.Len(t, r.State, 1_000_000)
}

// A million records, most of them due, cost no more than a few.
func TestMillionRecords(t *testing.T) {
	if os.Getenv("LEDGER_MILLION") == "" {
		t.Skip("set LEDGER_MILLION=1")
	}
	const million = 1_000_000
	path := somePath(t)
	few := opened(t, somePath(t))
	require.NoError(t, opened(t, path).Close())
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(OFF)&_pragma=cache_size(-400000)")
	require.NoError(t, err)
	for _, q := range []string{
		`INSERT INTO records (id, audience, owner, account, tool, revision, format, mode, status, fence, head, seen, floor, tries, lease, wake, due, keep, created, updated, summary)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
			SELECT randomblob(16), 'a', CAST(printf('%016d', i % 1000) AS BLOB), CAST(printf('%016d', i % 1000) AS BLOB), 'tool' || (i % 10), 1, 1, 'task',
				iif(i % 2, 'waiting', 'undoing'), 1, 1, 1, 0, 0, 0, 1000000000 + i, 1000000000 + i, 4e15 + i, 1000000000 + i, 1000000000, randomblob(50) FROM n`,
		`INSERT INTO states SELECT n, randomblob(300) FROM records LIMIT ?`, `INSERT INTO items SELECT n, 1, 'begun', 0, 0, randomblob(50) FROM records LIMIT ?`,
	} {
		_, err = db.Exec(q, million)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	t.Logf("file: %d MB", size(t, path)>>20)
	begin := time.Now()
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	defer s.Close()
	t.Logf("opened in %v", time.Since(begin))
	assert.Less(t, time.Since(begin), 2*time.Second)

	use := func(name string, n int, do func(s store.Store, i int) error) {
		t.Helper()
		took := func(s store.Store) time.Duration {
			begin := time.Now()
			for i := range n {
				require.NoError(t, do(s, i), name)
			}
			return time.Since(begin) / time.Duration(n)
		}
		a, b := took(few), took(s)
		t.Logf("%s: %v each, and %v in a file of few", name, b, a)
		assert.Less(t, b, 20*a+20*time.Millisecond, name) // its pages are not in memory
	}
	owner := func(i int) (id store.ID) { copy(id[:], fmt.Sprintf("%016d", i%1000)); return id }
	ctx := t.Context()
	use("Write", 2000, func(s store.Store, i int) error {
		r := sample(randomID(), 1000)
		r.Owner, r.Account, r.Tool, r.Wake, r.Keep = owner(i), owner(i), "tool3", time.Now(), time.Now().Add(-time.Hour)
		return s.Write(ctx, r, store.Change{Items: one.Items, Most: 10_000})
	})
	use("List of an owner", 200, func(s store.Store, i int) error {
		list, err := s.List(ctx, store.Filter{Audience: "a", Owner: owner(i), Mode: store.ModeTask}, store.Cursor{}, 100)
		assert.NotEmpty(t, list)
		return err
	})
	var after store.Cursor
	use("List of statuses", 200, func(s store.Store, i int) error {
		list, err := s.List(ctx, store.Filter{Audience: "a", Statuses: []store.Status{store.Undoing, store.Waiting}}, after, 100)
		if len(list) > 0 {
			after = store.Cursor{Created: list[len(list)-1].Created, ID: list[len(list)-1].ID}
		}
		return err
	})
	tools := []store.Tool{{Name: "tool1", Revision: 1}, {Name: "tool2", Revision: 1}, {Name: "tool3", Revision: 1}, {Name: "tool4", Revision: 1}}
	use("Take", 200, func(s store.Store, i int) error {
		_, _, err := s.Take(ctx, store.Take{Audience: "a", Tools: tools, Format: 1, Limit: 10, Lease: time.Hour})
		return err
	})
	use("Load", 2000, func(s store.Store, _ int) error {
		_, err := s.Load(ctx, randomID())
		assert.Equal(t, store.ErrNotFound, err)
		return nil
	})
	use("Forget", 20, func(s store.Store, _ int) error {
		n, err := s.Forget(ctx, 100)
		assert.Equal(t, 100, n)
		return err
	})
}

// commits counts the transactions in a -wal file. The page with which one ends says how large the
// database is afterwards (https://sqlite.org/fileformat2.html#the_write_ahead_log).
func commits(t testing.TB, path string) (n int) {
	t.Helper()
	wal, err := os.ReadFile(path + "-wal")
	require.NoError(t, err)
	const header, pageHeader = 32, 24
	page := int(binary.BigEndian.Uint32(wal[8:]))
	for frame := wal[header:]; len(frame) >= pageHeader+page; frame = frame[pageHeader+page:] {
		if binary.BigEndian.Uint32(frame[4:]) > 0 {
			n++
		}
	}
	return n
}
