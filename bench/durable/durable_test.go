package durable

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/cputime"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// worker is a system that does durable work.
type worker interface {
	// Do has a piece of work done and waits for its result. Many call it at once.
	Do(ctx context.Context) error
	Close()
}

var systems = []struct {
	store, name string
	// open opens the system on a database: how to connect to one of PostgreSQL, or the name of a file.
	open func(ctx context.Context, target string) (worker, error)
}{
	{"postgres", "DBOS", openDBOS},
	{"postgres", "River", openRiver},
	{"postgres", "mcpsaga", openTasks},
	{"sqlite", "DBOS", openDBOS},
	{"sqlite", "mcpsaga", openTasks},
}

// most callers are there at a time.
const most = 64

// wrong is the error of work whose result is not what three steps make.
func wrong(result any) error { return fmt.Errorf("the result of three steps is %v", result) }

// BenchmarkWork has one system after the other work. Each that uses PostgreSQL has a server of its own, with its default
// settings. Then follows what it costs while there is nothing to do, unless -short leaves that out.
func BenchmarkWork(b *testing.B) {
	for _, s := range systems {
		b.Run(s.store+"/"+s.name, func(b *testing.B) {
			target, server := filepath.Join(b.TempDir(), "work.db"), (*backends)(nil)
			if s.store == "postgres" {
				target, server = startPostgres(b)
			}
			w, err := s.open(b.Context(), target)
			require.NoError(b, err)
			defer w.Close()
			for _, callers := range []int{1, 16, most} {
				b.Run(fmt.Sprint(callers), func(b *testing.B) { work(b, w, server, callers) })
			}
			b.Run("idle", func(b *testing.B) { rest(b, server) })
		})
	}
}

func startPostgres(b *testing.B) (target string, server *backends) {
	s := postgrestest.Run(b)
	server, err := backendsOf(s.Dir)
	require.NoError(b, err)
	return s.DSN(), server
}

// work has callers have work done, each one piece after the other.
func work(b *testing.B, w worker, server *backends, callers int) {
	var begun atomic.Int64
	var all sync.WaitGroup
	times := make([]time.Duration, b.N)
	before := used(b, server)
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for i := int(begun.Add(1)) - 1; i < b.N && !b.Failed(); i = int(begun.Add(1)) - 1 {
				start := time.Now()
				if err := w.Do(b.Context()); err != nil {
					b.Error(err)
				}
				times[i] = time.Since(start)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(times)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(milliseconds(used(b, server).all-before.all)/float64(b.N), "cpu-ms/task")
	b.ReportMetric(milliseconds(times[b.N/2]), "p50-ms")
}

const (
	// settling is for how long what was begun under load continues: PostgreSQL looks once a minute for what to clean up.
	settling = 65 * time.Second
	// watched is for how long a system is watched then.
	watched = 20 * time.Second
)

// rest watches a system with nothing to do.
func rest(b *testing.B, server *backends) {
	if testing.Short() {
		b.Skip("it lasts")
	}
	if server != nil {
		time.Sleep(settling)
	}
	before := used(b, server)
	for b.Loop() { // once
		time.Sleep(watched)
	}
	after := used(b, server)
	b.ReportMetric(milliseconds(after.all-before.all)/b.Elapsed().Seconds(), "cpu-ms/s")
	b.ReportMetric(milliseconds(after.own-before.own)/b.Elapsed().Seconds(), "own-cpu-ms/s")
}

// usage is time of processors: of this process, and with its server's.
type usage struct{ own, all time.Duration }

func used(b *testing.B, server *backends) usage {
	own := cputime.Used()
	if server == nil {
		return usage{own, own}
	}
	theirs, err := server.used()
	require.NoError(b, err)
	return usage{own, own + theirs}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
