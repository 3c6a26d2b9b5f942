package tasks_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/cputime"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
)

// counted is the state of [threeSteps].
type counted struct {
	N int `json:"n"`
}

// threeSteps is a tool of three step functions that does nothing: what is left is what its
// checkpoints cost.
func threeSteps() saga.Definition {
	type turn = saga.Turn[none, counted]
	return saga.Machine[none, counted]{
		Info:  saga.Info{Name: "steps", Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Start: func(t *turn) (saga.Next, error) { t.State.N++; return t.Goto("second") },
		Steps: saga.Steps[none, counted]{
			"second": func(t *turn) (saga.Next, error) { t.State.N++; return t.Goto("third") },
			"third":  func(t *turn) (saga.Next, error) { t.State.N++; return t.Textf("%d", t.State.N) },
		},
	}
}

// measure has c callers do something b.N times, and reports how many a second, what each costs
// this process, and how long half of them take at most.
func measure(b *testing.B, c int, do func(ctx context.Context, caller int) error) {
	var next atomic.Int64
	var all sync.WaitGroup
	times := make([][]time.Duration, c)
	b.ResetTimer()
	used := cputime.Used()
	for caller := range c {
		all.Go(func() {
			for next.Add(1) <= int64(b.N) {
				began := time.Now()
				if err := do(b.Context(), caller); err != nil {
					b.Error(err)
					return
				}
				times[caller] = append(times[caller], time.Since(began))
			}
		})
	}
	all.Wait()
	used = cputime.Used() - used
	b.StopTimer()
	flat := slices.Concat(times...)
	slices.Sort(flat)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/task")
	if len(flat) > 0 {
		b.ReportMetric(float64(flat[len(flat)/2].Microseconds())/1000, "p50-ms")
	}
}

// BenchmarkTask drives tasks of three checkpointed step functions, each of its callers one
// after the other, from its start until the caller has its result. Beside it is the floor: what four
// updates of a small row cost, one after the other.
func BenchmarkTask(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		benchTasks(b, func(*testing.B) ledger.Store { return ledger.NewMemory(ledger.MemoryOptions{}) })
	})
	b.Run("sqlite", func(b *testing.B) {
		open := func(b *testing.B) ledger.Store {
			s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"))
			require.NoError(b, err)
			return s
		}
		for _, c := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("floor/%d", c), func(b *testing.B) {
				s := open(b)
				defer s.Close()
				rows := make([]*ledger.Record, c)
				for i := range rows {
					rows[i] = &ledger.Record{Key: fmt.Sprint("row", i), Body: make([]byte, 256)}
					require.NoError(b, s.Swap(b.Context(), rows[i]))
				}
				measure(b, c, func(ctx context.Context, caller int) error {
					for range 4 {
						if err := s.Swap(ctx, rows[caller]); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
		benchTasks(b, open)
	})
	b.Run("postgres", func(b *testing.B) {
		server := postgrestest.Run(b) // with its own settings, so each commit is synced
		pool, err := pgxpool.New(b.Context(), server.DSN()+" pool_max_conns=64")
		require.NoError(b, err)
		defer pool.Close()
		_, err = pool.Exec(b.Context(), `CREATE TABLE plain (key text PRIMARY KEY, rev bigint, body bytea)`)
		require.NoError(b, err)
		for _, c := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("floor/%d", c), func(b *testing.B) {
				body := make([]byte, 256)
				for i := range c {
					_, err := pool.Exec(b.Context(), `INSERT INTO plain VALUES ($1, 1, $2) ON CONFLICT DO NOTHING`, fmt.Sprint(i), body)
					require.NoError(b, err)
				}
				measure(b, c, func(ctx context.Context, caller int) error {
					for range 4 {
						if _, err := pool.Exec(ctx, `UPDATE plain SET rev = rev + 1, body = $2 WHERE key = $1`, fmt.Sprint(caller), body); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
		benchTasks(b, func(b *testing.B) ledger.Store {
			s, err := postgres.Open(b.Context(), server.DSN())
			require.NoError(b, err)
			return s
		})
	})
}

func benchTasks(b *testing.B, open func(*testing.B) ledger.Store) {
	for _, c := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("task/%d", c), func(b *testing.B) {
			m, stop := working(b, open(b), threeSteps())
			defer stop()
			measure(b, c, func(ctx context.Context, _ int) error {
				task, err := m.Start(ctx, call(m, "steps", "{}"))
				if err != nil {
					return err
				}
				for found, err := range m.Watch(ctx, "p", task.ID, 0) {
					if err != nil {
						return err
					}
					if task = found; task.Status.Ended() {
						break
					}
				}
				if task.Status != tasks.Completed {
					return fmt.Errorf("the task has ended as %v: %w", task.Status, task.Err)
				}
				return nil
			})
		})
	}
}

// BenchmarkCall compares a call that ends at once with what it costs without this package. The
// store is closed: neither may touch it.
func BenchmarkCall(b *testing.B) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	m, stop := working(b, store, single("call", func(t *turn) (saga.Next, error) { return t.Textf("done") }))
	defer stop()
	require.NoError(b, store.Close())
	s := waited(m, "call")
	b.Run("runner", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.Turns.Call(b.Context(), s.Request); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("task", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if task, err := m.Start(b.Context(), s); err != nil || task.ID != "" {
				b.Fatal(task, err)
			}
		}
	})
}
