package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/cputime"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
)

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

// BenchmarkTask drives tasks of three checkpointed step functions, each of its callers one after the
// other, from its start until the caller has its result.
func BenchmarkTask(b *testing.B) {
	for _, c := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("task/%d", c), func(b *testing.B) {
			m, stop := working(b, store.NewMemory(nil), threeSteps())
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
	rows := store.NewMemory(nil)
	m, stop := working(b, rows, single("call", func(t *turn) (saga.Next, error) { return t.Textf("done") }))
	defer stop()
	require.NoError(b, rows.Close())
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
	m, stop := working(b, store.NewMemory(nil), sleeper())
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
}

// working is a server that works on tasks.
func working(b *testing.B, rows store.Store, tool saga.Definition) (m *durable.Core, stop func()) {
	keys, err := codec.NewKeyset()
	require.NoError(b, err)
	sealer, err := tokens.New(keys, tokens.Options{Audience: "test"})
	require.NoError(b, err)
	registry, err := engine.NewRegistry(tool)
	require.NoError(b, err)
	runner := turns.New(turns.Config{Registry: registry, Codec: sealer, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	m, err = durable.New(durable.Config{Turns: runner, Store: rows, Workers: 64, PerPrincipal: 64, Limit: -1})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = m.Work(ctx) })
	time.Sleep(50 * time.Millisecond) // it has begun
	return m, func() {
		cancel()
		work.Wait()
		_ = rows.Close()
	}
}
