package sqlite_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

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

// Who writes at the same time shares a transaction, also with the first who comes, when nobody
// writes yet.
func TestWhoWritesAtOnceSharesATransaction(t *testing.T) {
	// On one processor it is certain who comes first: the writer is woken by the first change, before
	// the others are made.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	inTime(t, "most rounds are one transaction each", func() bool {
		path := somePath(t)
		s := opened(t, path)
		const rounds, writers = 10, 8
		before := commits(t, path)
		var records [writers]ledger.Record
		for range rounds {
			time.Sleep(5 * time.Millisecond) // until the writer waits
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					records[w].Key = fmt.Sprint(w)
					assert.NoError(t, s.Swap(t.Context(), &records[w]))
				})
			}
			all.Wait()
		}
		made := commits(t, path) - before
		require.NoError(t, s.Close())
		t.Logf("%d transactions for %d rounds", made, rounds)
		return made <= rounds*3/2
	})
}
