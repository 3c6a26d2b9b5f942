package tasks_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/cputime"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
)

// sleeper sleeps for a number of milliseconds.
func sleeper() saga.Definition {
	type args struct {
		Until time.Time `json:"until"`
	}
	type turn = saga.Turn[args, none]
	return saga.Machine[args, none]{
		Info:  saga.Info{Name: "sleep", Tasks: optional},
		Start: func(t *turn) (saga.Next, error) { return t.Until(t.Args.Until, "end") },
		Steps: saga.Steps[args, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	}
}

// BenchmarkWake has a thousand sleeping tasks wake at once, and says when the last has ended.
func BenchmarkWake(b *testing.B) {
	for name, open := range stores(b) {
		b.Run(name, func(b *testing.B) {
			m, stop := working(b, open(b), sleeper())
			defer stop()
			for b.Loop() {
				at := time.Now().Add(6 * time.Second).UTC()
				var ids []string
				for range 1000 {
					s := call(m, "sleep", `{"until":"`+at.Format(time.RFC3339Nano)+`"}`)
					task, err := m.Start(b.Context(), s)
					require.NoError(b, err)
					ids = append(ids, task.ID)
				}
				require.Greater(b, time.Until(at), time.Duration(0), "the machine is too slow")
				time.Sleep(time.Until(at))
				var late time.Duration
				for _, id := range ids {
					for task, err := range m.Watch(b.Context(), "p", id, 0) {
						require.NoError(b, err)
						if task.Status.Ended() {
							late = max(late, task.Updated.Sub(at))
						}
					}
				}
				b.ReportMetric(late.Seconds()*1000, "last-ms")
			}
		})
	}
}

// BenchmarkIdle says how much of a processor a server uses whose tasks all wait.
func BenchmarkIdle(b *testing.B) {
	for name, open := range stores(b) {
		b.Run(name, func(b *testing.B) {
			m, stop := working(b, open(b), greeter())
			defer stop()
			for range 100 {
				_, err := m.Start(b.Context(), call(m, "greet", ""))
				require.NoError(b, err)
			}
			time.Sleep(2 * time.Second)
			for b.Loop() {
				used := cputime.Used()
				time.Sleep(5 * time.Second)
				b.ReportMetric(float64((cputime.Used()-used).Microseconds())/5000, "cpu-ms/s")
			}
		})
	}
}

func stores(b *testing.B) map[string]func(b *testing.B) ledger.Store {
	return map[string]func(b *testing.B) ledger.Store{
		"sqlite": func(b *testing.B) ledger.Store {
			s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"))
			require.NoError(b, err)
			return s
		},
		"postgres": func(b *testing.B) ledger.Store {
			s, err := postgres.Open(b.Context(), postgrestest.Run(b).DSN())
			require.NoError(b, err)
			return s
		},
	}
}

// working is a server that works on tasks.
func working(b *testing.B, store ledger.Store, tool saga.Definition) (m *tasks.Manager, stop func()) {
	keys, err := codec.NewKeyset()
	require.NoError(b, err)
	sealer, err := tokens.New(keys, tokens.Options{})
	require.NoError(b, err)
	registry, err := engine.NewRegistry(tool)
	require.NoError(b, err)
	runner, err := turns.New(turns.Config{Registry: registry, Codec: sealer, Log: slog.New(slog.DiscardHandler), Now: time.Now, Ledger: store, UndoGrace: turns.DefaultUndoGrace})
	require.NoError(b, err)
	m, err = tasks.New(tasks.Config{Turns: runner, Workers: 64, PerPrincipal: 64, Limit: -1})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = m.Work(ctx) })
	time.Sleep(50 * time.Millisecond) // it has begun
	return m, func() {
		cancel()
		work.Wait()
		_ = store.Close()
	}
}
