package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

const delay = 50 * time.Millisecond

var saying = content.Message{Role: content.User, Content: content.Text{Text: "say it"}}

// waited is a call that its client waits for.
func waited(m *tasks.Manager, name string) tasks.Start {
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

// ends are tools, prompts and resources that end in each way there is, without doing anything.
func ends() []saga.Definition {
	link := &steps.Link{ID: "link", Message: "Go there."}
	return []saga.Definition{
		plain("works", func(t *turn) (saga.Next, error) { return t.Textf("done") }),
		plain("steps", func(t *turn) (saga.Next, error) { return t.Goto("next") }, saga.Steps[none, none]{
			"next": func(t *turn) (saga.Next, error) { return t.Textf("done") },
		}),
		plain("fails", func(t *turn) (saga.Next, error) { return nil, saga.Failf("not today") }),
		plain("breaks", func(t *turn) (saga.Next, error) { return nil, errors.New("secret") }),
		plain("misbehaves", func(t *turn) (saga.Next, error) { return t.Goto("nowhere") }), //sagavet:ignore the test is about this
		plain("panics", func(t *turn) (saga.Next, error) { panic("at the disco") }),
		saga.Machine[none, none]{
			Info:  saga.Info{Name: "links", Asks: []steps.Question{link}},
			Start: func(t *turn) (saga.Next, error) { return t.Ask("there", link) },
			Steps: saga.Steps[none, none]{"there": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
		},
		saga.Prompt[none, none]{Machine: saga.Machine[none, none]{
			Info: saga.Info{Name: "prompt"}, Start: func(t *turn) (saga.Next, error) { return t.Messages(saying) },
		}},
		saga.Prompt[none, none]{Machine: saga.Machine[none, none]{
			Info: saga.Info{Name: "bad-prompt"}, Start: func(t *turn) (saga.Next, error) { return nil, saga.Failf("not today") },
		}},
		saga.Resource[none, none]{URI: "note://x", Machine: saga.Machine[none, none]{
			Info: saga.Info{Name: "resource"}, Start: func(t *turn) (saga.Next, error) { return t.Contents(content.ResourceContents{Text: "contents"}) },
		}},
	}
}

// said is a result without the saga's id.
func said(t *testing.T, r *content.Result) string {
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	return regexp.MustCompile(`saga [0-9a-f]{32}`).ReplaceAllString(string(raw), "saga")
}

var kinds = []engine.Kind{engine.KindTool, engine.KindPrompt, engine.KindResource}

func TestACallThatEndsSoonNeedsNoLedger(t *testing.T) {
	r := newRig(t)
	store := spied(r)
	unused := &saga.Effect[hold, string]{
		Name: "unused",
		Do:   func(context.Context, saga.Key, hold) (string, error) { return "", errors.New("there was no reason to") },
		Undo: func(context.Context, saga.Performed[hold, string]) error { return nil },
	}
	m := r.manager(nil, append(ends(), saga.Machine[none, none]{Info: saga.Info{Name: "refuses", Effects: []saga.Declared{unused}}, Start: nothing})...)
	require.NoError(t, store.Close())
	for _, kind := range kinds {
		for _, p := range m.Turns.Registry.Of(kind) {
			check := func(t *testing.T, key string) {
				s := waited(m, "")
				s.Request.Program, s.Request.Client, s.Request.IdempotencyKey, s.ID = p, steps.Features{}, key, "mine"
				want, wantErr := m.Turns.Call(t.Context(), s.Request)
				task, err := m.Start(t.Context(), s)
				if wantErr != nil {
					require.Error(t, err)
					var turn *turns.Error
					require.ErrorAs(t, err, &turn)
					var one, other *engine.StepFailure
					require.Equal(t, errors.As(wantErr, &one), errors.As(err, &other))
					if one != nil {
						assert.Equal(t, one.Step, other.Step)
					}
					var lacks, lacksToo *engine.UnsupportedError
					assert.Equal(t, errors.As(wantErr, &lacks), errors.As(err, &lacksToo))
					assert.Equal(t, lacks, lacksToo)
					var failed, failedToo *engine.ToolError
					require.Equal(t, errors.As(wantErr, &failed), errors.As(err, &failedToo))
					if failed != nil {
						assert.Equal(t, failed.Text, failedToo.Text)
					}
					return
				}
				require.NoError(t, err)
				assert.Empty(t, task.ID)
				require.NotNil(t, task.End)
				assert.Equal(t, said(t, want.Result), said(t, task.End.Result))
				assert.Equal(t, want.Messages, task.End.Messages)
				assert.Equal(t, want.Contents, task.End.Contents)
			}
			t.Run(p.Name, func(t *testing.T) { check(t, "") })
			if !p.Acts() { // else it may have acted when it was called before
				t.Run(p.Name+" with a key", func(t *testing.T) { check(t, "key") })
			}
		}
	}
	assert.Zero(t, store.swaps.Load())
	assert.Zero(t, store.reads.Load())
}

func TestACallThatAsksNeedsNoPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		store := spied(r)
		busy := single("busy", func(t *turn) (saga.Next, error) { <-t.Done(); return nil, t.Err() })
		m := r.manager(func(c *tasks.Config) { c.Workers, c.Limit = 1, 1 }, asks("ask"), busy)
		r.work(m)
		r.start(m, call(m, "busy", "")) // has the only place, and is all that the principal may have
		before := store.swaps.Load()
		var list []*tasks.Task
		for range 5 {
			task := r.start(m, waited(m, "ask"))
			assert.NotEmpty(t, task.ID)
			assert.Equal(t, tasks.InputRequired, task.Status)
			require.Len(t, task.Questions, 1)
			list = append(list, task)
		}
		assert.Equal(t, before+5, store.swaps.Load(), "writes")
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
		var m *tasks.Manager
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
			store := spied(r)
			tool, calls, _ := holding(0, 0, func(saga.Key) error { return nil })
			m := r.manager(nil, tool)
			r.work(m)
			synctest.Wait()
			store.fails(down)
			_, err := m.Start(t.Context(), waited(m, "hold"))
			require.ErrorIs(t, err, turns.ErrLedger)
			assert.Zero(t, calls.Load())
		})
	})
	t.Run("goes on as long as it does nothing", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			store := spied(r)
			m := r.manager(nil, plain("slow", func(t *turn) (saga.Next, error) { time.Sleep(time.Minute); return t.Textf("done") }))
			r.work(m)
			synctest.Wait()
			store.fails(down)
			task, err := m.Start(t.Context(), waited(m, "slow"))
			require.NoError(t, err)
			assert.Empty(t, task.ID)
			assert.Contains(t, text(t, task), "done")
			time.AfterFunc(10*time.Second, func() { store.fails(nil) })
			task, err = m.Start(t.Context(), waited(m, "slow"))
			require.NoError(t, err)
			require.NotEmpty(t, task.ID, "there is a record as soon as there can be one")
			r.until(m, task.ID, tasks.Completed)
		})
	})
	t.Run("though it was", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			store := spied(r)
			tool, calls, _ := holding(0, 0, func(saga.Key) error { return nil })
			m := r.manager(nil, tool)
			r.work(m)
			synctest.Wait()
			store.fails(func(swap func() error) error {
				store.fails(nil)
				return errors.Join(swap(), errCut) // and nobody can say that it was made
			})
			task, err := m.Start(t.Context(), waited(m, "hold"))
			require.NoError(t, err)
			r.until(m, task.ID, tasks.Completed)
			assert.EqualValues(t, 1, calls.Load())
		})
	})
}

func TestACallThatTakesLong(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		type key struct{}
		m := r.manager(nil, plain("slow", func(t *turn) (saga.Next, error) {
			time.Sleep(time.Minute)
			if t.Err() != nil {
				return nil, t.Err()
			}
			return t.Textf("for %v", t.Value(key{}))
		}))
		other := r.manager(nil, plain("slow", nothing))
		r.work(m)
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "Ada"))
		task, err := m.Start(ctx, waited(m, "slow"))
		require.NoError(t, err)
		cancel() // the client comes back
		assert.NotEmpty(t, task.ID)
		assert.Equal(t, delay, time.Since(began))
		assert.Equal(t, tasks.Working, task.Status)
		task = r.until(other, task.ID, tasks.Completed)
		assert.Contains(t, text(t, task), "for Ada")
		assert.Equal(t, time.Minute, time.Since(began).Truncate(time.Second))
	})
}

func nothing(t *turn) (saga.Next, error) { return t.Textf("nothing") }

func TestACallWhoseCallerGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		store := spied(r)
		tool, calls, _ := holding(20*time.Millisecond, 0, func(saga.Key) error { return nil })
		m := r.manager(nil, tool, plain("waits", func(t *turn) (saga.Next, error) { <-t.Done(); return nil, t.Err() }))
		r.work(m)
		synctest.Wait()
		before := store.swaps.Load()
		for _, name := range []string{"hold", "waits"} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := m.Start(ctx, waited(m, name))
			cancel()
			require.Error(t, err, name)
			assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), err)
		}
		assert.Zero(t, calls.Load())
		assert.Equal(t, before, store.swaps.Load())
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

func TestACallIsBoundedAsATurn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		runner := r.runner(r.store, plain("waits", func(t *turn) (saga.Next, error) { <-t.Done(); return nil, t.Err() }))
		runner.Timeout = time.Minute
		m, err := tasks.New(tasks.Config{Turns: runner})
		require.NoError(t, err)
		r.work(m)
		began := time.Now()
		task := r.start(m, waited(m, "waits"))
		task = r.until(m, task.ID, tasks.Failed)
		assert.Equal(t, time.Minute, time.Since(began))
		require.ErrorIs(t, task.Err, context.DeadlineExceeded)
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
		for _, m := range []*tasks.Manager{m, other} {
			s.Request.Program = m.Turns.Registry.Find(engine.KindTool, "hold")
			_, err := m.Start(t.Context(), s)
			require.ErrorIs(t, err, tasks.ErrExists)
		}
		r.until(m, first.ID, tasks.Completed)
		assert.EqualValues(t, 1, calls.Load())
	})
}
