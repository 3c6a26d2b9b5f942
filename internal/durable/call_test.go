package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

const delay = 50 * time.Millisecond

var saying = content.Message{Role: content.User, Content: content.Text{Text: "say it"}}

// waited is a call that its client waits for.
func waited(m *durable.Core, name string) tasks.Start {
	s := call(m, name, "{}")
	s.Delay, s.Keep, s.Patience = delay, 5*time.Minute, time.Hour
	return s
}

// plain is a tool that may not be a task.
func plain(name string, start func(t *turn) (saga.Next, error), more ...saga.Steps[none, none]) saga.Definition {
	tool := saga.Machine[none, none]{Info: saga.Info{Name: name}, Start: start}
	for _, steps := range more {
		tool.Steps = steps
	}
	return tool
}

func asks(name string) saga.Definition {
	tool := greeter().(saga.Machine[none, none])
	tool.Name, tool.Tasks = name, saga.Tasks{}
	return tool
}

func TestACallThatAsksNeedsNoPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		seen := spied(r)
		busy := single("busy", func(t *turn) (saga.Next, error) { <-t.Done(); return nil, t.Err() })
		m := r.manager(func(c *durable.Config) { c.Workers, c.Limit = 1, 1 }, asks("ask"), busy)
		r.work(m)
		r.start(m, call(m, "busy", "")) // has the only place, and is all that the principal may have
		before := seen.writes.Load()
		var list []*tasks.Task
		for range 5 {
			task := r.start(m, waited(m, "ask"))
			assert.NotEmpty(t, task.ID)
			assert.Equal(t, tasks.InputRequired, task.Status)
			require.Len(t, task.Questions, 1)
			list = append(list, task)
		}
		assert.Equal(t, before+5, seen.writes.Load(), "writes")
		for _, task := range list {
			began := time.Now()
			_, err := m.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
			require.NoError(t, err)
			task = r.until(m, task.ID, tasks.Completed)
			assert.Less(t, time.Since(began), time.Second)
			assert.Contains(t, text(t, task), "Hello, Ada")
		}
		shown, _, err := m.List(t.Context(), "p", "", 10)
		require.NoError(t, err)
		assert.Len(t, shown, 1, "calls are not listed")
		time.Sleep(5*time.Minute - time.Second)
		_, err = m.Get(t.Context(), "p", list[0].ID)
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		_, err = m.Get(t.Context(), "p", list[0].ID)
		require.ErrorIs(t, err, tasks.ErrNotFound, "it is kept for as long as was asked for")
	})
}

func TestACallGoesOnElsewhere(t *testing.T) {
	for _, how := range []string{"stopped", "killed", "answered elsewhere"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				l := newLink(r.store, newRand(), -1, 0)
				a, err := durable.New(durable.Config{Turns: r.runner(asks("ask")), Store: l})
				require.NoError(t, err)
				b := r.manager(nil, asks("ask"))
				stop := r.work(a)
				r.work(b)
				task := r.start(a, waited(a, "ask"))
				switch how {
				case "stopped":
					stop()
				case "killed":
					l.cut()
				}
				_, err = b.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
				require.NoError(t, err)
				r.until(b, task.ID, tasks.Completed)
			})
		})
	}
}

// holding is a tool that performs an effect, after a while and before a while.
func holding(before, after time.Duration, do func(saga.Key) error) (tool saga.Definition, calls, undone *atomic.Int32) {
	calls, undone = new(atomic.Int32), new(atomic.Int32)
	effect := &saga.Effect[hold, string]{
		Name: "hold", Tries: 1,
		Do:   func(_ context.Context, key saga.Key, _ hold) (string, error) { calls.Add(1); return "held", do(key) },
		Undo: func(context.Context, saga.Performed[hold, string]) error { undone.Add(1); return nil },
	}
	return saga.Machine[none, none]{
		Info: saga.Info{Name: "hold", Effects: []saga.Declared{effect}},
		Start: func(t *turn) (saga.Next, error) {
			time.Sleep(before)
			if _, err := saga.Do(t, effect, hold{Task: "x", What: "a"}); err != nil {
				return nil, err
			}
			if after > 0 {
				select {
				case <-time.After(after):
				case <-t.Done():
					return nil, t.Err()
				}
			}
			return t.Textf("held")
		},
	}, calls, undone
}

func TestACallHasARecordBeforeItActs(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var m *durable.Core
		tool, calls, undone := holding(time.Millisecond, 0, func(saga.Key) error {
			e, err := m.Get(context.Background(), "p", "mine")
			assert.NoError(t, err)
			if err == nil {
				assert.Equal(t, tasks.Working, e.Status)
			}
			return nil
		})
		m = r.manager(nil, tool)
		r.work(m)
		s := waited(m, "hold")
		s.ID = "mine"
		task := r.start(m, s)
		assert.Equal(t, "mine", task.ID)
		task = r.until(m, "mine", tasks.Completed)
		assert.Contains(t, text(t, task), "held")
		assert.EqualValues(t, 1, calls.Load())
		_, err := m.Start(t.Context(), s)
		require.ErrorIs(t, err, tasks.ErrExists)
		assert.EqualValues(t, 1, calls.Load(), "it has done nothing")
		assert.Zero(t, undone.Load())
	})
}

func TestACallThatCannotBeRemembered(t *testing.T) {
	down := func(func() error) error { return errCut }
	t.Run("does not act", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			seen := spied(r)
			tool, calls, _ := holding(0, 0, func(saga.Key) error { return nil })
			m := r.manager(nil, tool)
			r.work(m)
			synctest.Wait()
			seen.fails(down)
			_, err := m.Start(t.Context(), waited(m, "hold"))
			require.ErrorIs(t, err, durable.ErrUnavailable)
			assert.Zero(t, calls.Load())
		})
	})
	t.Run("goes on as long as it does nothing", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			seen := spied(r)
			m := r.manager(nil, plain("slow", func(t *turn) (saga.Next, error) { time.Sleep(time.Minute); return t.Textf("done") }))
			r.work(m)
			synctest.Wait()
			seen.fails(down)
			task, err := m.Start(t.Context(), waited(m, "slow"))
			require.NoError(t, err)
			assert.Empty(t, task.ID)
			assert.Contains(t, text(t, task), "done")
			time.AfterFunc(10*time.Second, func() { seen.fails(nil) })
			task, err = m.Start(t.Context(), waited(m, "slow"))
			require.NoError(t, err)
			require.NotEmpty(t, task.ID, "there is a record as soon as there can be one")
			r.until(m, task.ID, tasks.Completed)
		})
	})
	t.Run("nor is it known for a while", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			tool, calls, _ := holding(0, 0, func(saga.Key) error { return nil })
			m, way := r.narrowed(tool)
			r.work(m)
			synctest.Wait()
			way.mute.Store(true)
			time.AfterFunc(5*time.Second, func() { way.mute.Store(false) })
			task, err := m.Start(t.Context(), waited(m, "hold")) // it is not refused, and goes on though
			require.NoError(t, err)
			r.until(m, task.ID, tasks.Completed)
			assert.EqualValues(t, 1, calls.Load())
		})
	})
	t.Run("though it was", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			seen := spied(r)
			tool, calls, _ := holding(0, 0, func(saga.Key) error { return nil })
			m := r.manager(nil, tool)
			r.work(m)
			synctest.Wait()
			seen.fails(func(write func() error) error {
				seen.fails(nil)
				return errors.Join(write(), store.ErrUnknown) // and nobody can say that it was made
			})
			task, err := m.Start(t.Context(), waited(m, "hold"))
			require.NoError(t, err)
			r.until(m, task.ID, tasks.Completed)
			assert.EqualValues(t, 1, calls.Load())
		})
	})
}

func nothing(t *turn) (saga.Next, error) { return t.Textf("nothing") }

func TestACallWhoseCallerGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		seen := spied(r)
		tool, calls, _ := holding(20*time.Millisecond, 0, func(saga.Key) error { return nil })
		m := r.manager(nil, tool, plain("waits", func(t *turn) (saga.Next, error) { <-t.Done(); return nil, t.Err() }))
		r.work(m)
		synctest.Wait()
		before := seen.writes.Load()
		for _, name := range []string{"hold", "waits"} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := m.Start(ctx, waited(m, name))
			cancel()
			require.Error(t, err, name)
			assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), err)
		}
		assert.Zero(t, calls.Load())
		assert.Equal(t, before, seen.writes.Load())
	})
}

func TestACallIsCancelled(t *testing.T) {
	for _, how := range []string{"by its client", "as nobody wants it"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				tool, _, undone := holding(0, 2*time.Hour, func(saga.Key) error { return nil })
				m := r.manager(nil, tool)
				r.work(m)
				task := r.start(m, waited(m, "hold"))
				time.Sleep(time.Minute)
				want := tasks.Failed
				if how == "by its client" {
					_, err := m.Cancel(t.Context(), "p", task.ID)
					require.NoError(t, err)
					want = tasks.Cancelled
				}
				r.until(m, task.ID, want)
				assert.EqualValues(t, 1, undone.Load())
			})
		})
	}
}

func TestACallWhereNobodyWorks(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool, calls, _ := holding(0, 0, func(saga.Key) error { return nil })
		a, b := r.manager(nil, tool), r.manager(nil, tool)
		synctest.Wait()
		task, err := a.Start(t.Context(), waited(a, "hold")) // it has stopped
		require.NoError(t, err)
		assert.Zero(t, calls.Load())
		r.work(b)
		r.until(a, task.ID, tasks.Completed)
		assert.EqualValues(t, 1, calls.Load())
	})
}

func TestCallsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		only := r.manager(func(c *durable.Config) { c.Workers = -1 }, greeter())
		r.work(only)
		idle := r.manager(nil, greeter())
		task := r.start(idle, call(idle, "greet", ""))
		asked := r.start(only, waited(only, "greet"))
		_, err := only.Answer(t.Context(), "p", asked.ID, []steps.Answer{accept(asked.Questions[0].ID, `{"name":"Ada"}`)})
		require.NoError(t, err)
		r.until(only, asked.ID, tasks.Completed)
		time.Sleep(time.Minute)
		task, err = only.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Queued, task.Status)
	})
}

func TestACallWithAKey(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool, calls, _ := holding(0, 0, func(saga.Key) error { return nil })
		m := r.manager(nil, tool)
		r.work(m)
		s := waited(m, "hold")
		s.Request.IdempotencyKey = "key"
		first := r.start(m, s)
		r.until(m, first.ID, tasks.Completed)
		again := r.start(m, s)
		assert.Equal(t, first.ID, again.ID)
		assert.EqualValues(t, 1, calls.Load())
		s.Request.Arguments = json.RawMessage(`{"other":1}`)
		_, err := m.Start(t.Context(), s)
		require.ErrorIs(t, err, turns.ErrKeyReused)
	})
}

func TestACallOfAnIDThatIsInUse(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool, calls, _ := holding(0, time.Second, func(saga.Key) error { return nil })
		m, other := r.manager(nil, tool), r.manager(nil, tool)
		r.work(m)
		r.work(other)
		s := waited(m, "hold")
		s.ID = "mine"
		first := r.start(m, s)
		for _, m := range []*durable.Core{m, other} {
			s.Request.Program = m.Turns.Registry.Find(engine.KindTool, "hold")
			_, err := m.Start(t.Context(), s)
			require.ErrorIs(t, err, tasks.ErrExists)
		}
		r.until(m, first.ID, tasks.Completed)
		assert.EqualValues(t, 1, calls.Load())
	})
}
