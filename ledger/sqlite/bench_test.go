package sqlite_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// BenchmarkSwap compares the store with the plainest loop that groups commits on the same
// driver: 1 KiB bodies, by 1, 16 and 64 goroutines. "full" records have a queue, an owner and both times, as
// those of sagas have.
func BenchmarkSwap(b *testing.B) {
	for _, c := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("raw/create/%d", c), func(b *testing.B) { benchRaw(b, c, false) })
		b.Run(fmt.Sprintf("store/create/%d", c), func(b *testing.B) { benchStore(b, c, false, false) })
		b.Run(fmt.Sprintf("full/create/%d", c), func(b *testing.B) { benchStore(b, c, false, true) })
		b.Run(fmt.Sprintf("raw/update/%d", c), func(b *testing.B) { benchRaw(b, c, true) })
		b.Run(fmt.Sprintf("store/update/%d", c), func(b *testing.B) { benchStore(b, c, true, false) })
		b.Run(fmt.Sprintf("full/update/%d", c), func(b *testing.B) { benchStore(b, c, true, true) })
	}
}

func randomKey() string {
	var k [32]byte
	_, _ = rand.Read(k[:])
	return base64.RawURLEncoding.EncodeToString(k[:])
}

func share(b *testing.B, c int, do func(worker int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for w := range c {
		all.Go(func() {
			for next.Add(1) <= int64(b.N) {
				do(w)
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func benchStore(b *testing.B, c int, update, full bool) {
	ctx := b.Context()
	s, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "ledger.db"))
	require.NoError(b, err)
	defer s.Close()
	body := make([]byte, 1024)
	_, _ = rand.Read(body)
	fresh := func() *ledger.Record {
		r := &ledger.Record{Key: randomKey(), Body: body}
		if full {
			r.Queue, r.Owner = "some-queue-of-a-tool", randomKey()
			r.Wake, r.Keep = time.Now().Add(time.Hour), time.Now().Add(48*time.Hour)
		}
		return r
	}
	records := make([]*ledger.Record, c)
	for i := range records {
		records[i] = fresh()
		require.NoError(b, s.Swap(ctx, records[i]))
	}
	share(b, c, func(w int) {
		r := records[w]
		if !update {
			r = fresh()
		} else if full {
			r.Wake = r.Wake.Add(time.Second)
		}
		if err := s.Swap(ctx, r); err != nil {
			b.Error(err)
		}
	})
}

func benchRaw(b *testing.B, c int, update bool) {
	ctx := b.Context()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "raw.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	require.NoError(b, err)
	defer db.Close()
	conn, err := db.Conn(ctx)
	require.NoError(b, err)
	_, err = conn.ExecContext(ctx, "CREATE TABLE r (key TEXT PRIMARY KEY, rev INTEGER, body BLOB)")
	require.NoError(b, err)
	insert, err := conn.PrepareContext(ctx, "INSERT INTO r VALUES (?, 1, ?) ON CONFLICT DO NOTHING")
	require.NoError(b, err)
	change, err := conn.PrepareContext(ctx, "UPDATE r SET rev = rev + 1, body = ? WHERE key = ? AND rev = ?")
	require.NoError(b, err)
	type op struct {
		key  string
		rev  int
		done chan error
	}
	ops, ended := make(chan op, 256), make(chan struct{})
	body := make([]byte, 1024)
	_, _ = rand.Read(body)
	go func() {
		defer close(ended)
		for first := range ops {
			group := []op{first}
			for more := true; more && len(group) < 256; {
				select {
				case o, ok := <-ops:
					if more = ok; ok {
						group = append(group, o)
					}
				default:
					more = false
				}
			}
			_, err := conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
			for _, o := range group {
				if err == nil && o.rev > 0 {
					_, err = change.Exec(body, o.key, o.rev)
				} else if err == nil {
					_, err = insert.Exec(o.key, body)
				}
			}
			if err == nil {
				_, err = conn.ExecContext(context.Background(), "COMMIT")
			}
			for _, o := range group {
				o.done <- err
			}
		}
	}()
	do := func(key string, rev int) {
		o := op{key, rev, make(chan error, 1)}
		ops <- o
		if err := <-o.done; err != nil {
			b.Error(err)
		}
	}
	keys, revs := make([]string, c), make([]int, c)
	for i := range keys {
		keys[i], revs[i] = randomKey(), 1
		do(keys[i], 0)
	}
	share(b, c, func(w int) {
		if !update {
			do(randomKey(), 0)
			return
		}
		do(keys[w], revs[w])
		revs[w]++
	})
	close(ops)
	<-ended
}
