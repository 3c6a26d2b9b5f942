package durable_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

var optional = saga.Tasks{Mode: saga.TasksOptional}

// single is a tool of one step function.
func single(name string, start func(t *turn) (saga.Next, error), effects ...saga.Declared) saga.Definition {
	return saga.Machine[none, none]{Info: saga.Info{Name: name, Tasks: optional, Effects: effects}, Start: start}
}

// inBubble runs a test with servers in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.close()
		test(t, r)
	})
}

func (r *rig) start(m *durable.Core, s tasks.Start) *tasks.Task {
	r.t.Helper()
	synctest.Wait() // who works has begun
	task, err := m.Start(context.Background(), s)
	require.NoError(r.t, err)
	return task
}

func TestSleepsAndParts(t *testing.T) {
	tool := saga.Machine[none, none]{
		Info:  saga.Info{Name: "parts", Tasks: optional, Yields: true},
		Start: func(t *turn) (saga.Next, error) { return t.Yield("sleep", content.Text{Text: "one"}) },
		Steps: saga.Steps[none, none]{
			"sleep": func(t *turn) (saga.Next, error) { return t.Sleep(6*time.Hour, "end") },
			"end":   func(t *turn) (saga.Next, error) { return t.Textf("two") },
		},
	}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, tool)
		r.work(m)
		task := r.start(m, call(m, "parts", ""))
		began := time.Now()
		time.Sleep(time.Hour)
		now, err := m.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Working, now.Status)
		r.until(m, task.ID, tasks.Completed)
		assert.InDelta(t, 6*time.Hour, time.Since(began), float64(time.Second))
		parts, err := m.Parts(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, content.Blocks{content.Text{Text: "one"}}, parts)
	})
}

func TestARunningTaskIsCancelledFromElsewhere(t *testing.T) {
	d := newDesk()
	effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
	tool := single("long", func(t *turn) (saga.Next, error) {
		if _, err := saga.Do(t, effect, hold{Task: "x", What: "a"}); err != nil {
			return nil, err
		}
		<-t.Done()
		return nil, context.Cause(t)
	}, effect)
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.manager(nil, tool), r.manager(nil, tool)
		r.work(a)
		task := r.start(a, call(a, "long", ""))
		time.Sleep(time.Minute)
		began := time.Now()
		_, err := b.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		task = r.until(b, task.ID, tasks.Cancelled)
		assert.Less(t, time.Since(began), time.Second)
		left, keys := d.left("x")
		assert.Empty(t, left)
		assert.Len(t, keys, 1)
		assert.Contains(t, text(t, task), "Undone: hold")
	})
}

func TestClientsDoNotDisturbWhatRuns(t *testing.T) {
	var runs atomic.Int32
	tool := single("long", func(t *turn) (saga.Next, error) {
		runs.Add(1)
		time.Sleep(5 * time.Minute)
		return t.Textf("done")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.manager(nil, tool), r.manager(nil, tool)
		r.work(a)
		task := r.start(a, call(a, "long", ""))
		r.work(b)
		time.Sleep(time.Second)
		for n := range 3 {
			require.NoError(t, b.Extend(t.Context(), "p", task.ID, time.Now().Add(time.Duration(48+n)*time.Hour)))
			time.Sleep(time.Minute)
		}
		r.until(b, task.ID, tasks.Completed)
		assert.EqualValues(t, 1, runs.Load())
		events, err := b.Logged(t.Context(), "p", task.ID, 0)
		require.NoError(t, err)
		require.Len(t, events, 1)
		time.Sleep(40 * time.Hour)
		_, err = b.Get(t.Context(), "p", task.ID)
		require.NoError(t, err, "it was to be kept for longer")
		time.Sleep(20 * time.Hour)
		_, err = b.Get(t.Context(), "p", task.ID)
		require.ErrorIs(t, err, tasks.ErrNotFound)
	})
}

func TestTheSameCallIsTheSameTask(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, greeter())
		r.work(m)
		s := call(m, "greet", "")
		s.Request.IdempotencyKey = "key"
		first := r.start(m, s)
		again := r.start(m, s)
		assert.Equal(t, first.ID, again.ID)
		assert.Len(t, first.ID, 22)
		s.Request.Arguments = []byte(`{"other":1}`)
		_, err := m.Start(t.Context(), s)
		require.ErrorIs(t, err, turns.ErrKeyReused)
		s = call(m, "greet", "")
		s.ID = "mine"
		r.start(m, s)
		_, err = m.Start(t.Context(), s)
		require.ErrorIs(t, err, tasks.ErrExists)
		s.Request.Principal = "another"
		r.start(m, s)
	})
}

func TestATaskBeginsAfterAQuestion(t *testing.T) {
	for _, policy := range []turns.Policy{turns.Carried, turns.Resent} {
		t.Run(policy.Purpose, func(t *testing.T) {
			d := newDesk()
			effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
			tool := saga.Machine[none, none]{
				Info: saga.Info{Name: "ask", Asks: []steps.Question{nameForm}, Effects: []saga.Declared{effect}, Tasks: saga.Tasks{Mode: saga.TasksOptional, After: "name"}},
				Start: func(t *turn) (saga.Next, error) {
					if _, err := saga.Do(t, effect, hold{Task: "x", What: "a"}); err != nil {
						return nil, err
					}
					return t.Ask("sleep", nameForm)
				},
				Steps: saga.Steps[none, none]{
					"sleep": func(t *turn) (saga.Next, error) { return t.Sleep(5*time.Hour, "end") },
					"end":   func(t *turn) (saga.Next, error) { return t.Textf("done") },
				},
			}
			inBubble(t, func(t *testing.T, r *rig) {
				m := r.manager(nil, tool)
				r.work(m)
				s := call(m, "ask", "{}")
				s.Request.Policy = policy
				asked := r.start(m, s)
				require.Empty(t, asked.ID, "no task yet")
				require.Len(t, asked.End.Steps, 1)
				s.Request.Token, s.Request.Answers = asked.End.Token, []steps.Answer{accept("name", `{"name":"Ada"}`)}
				task := r.start(m, s)
				require.NotEmpty(t, task.ID)
				again := r.start(m, s)
				assert.Equal(t, task.ID, again.ID, "the token is used once")
				_, err := m.Turns.Resume(t.Context(), s.Request)
				require.Error(t, err, "nor can the saga go on otherwise")
				time.Sleep(time.Hour) // the token is over, and nobody undoes what the saga did
				left, _ := d.left("x")
				assert.Equal(t, []string{"a"}, left)
				r.until(m, task.ID, tasks.Completed)
				left, _ = d.left("x")
				assert.Equal(t, []string{"a"}, left)
			})
		})
	}
}

func TestFailuresOfTasks(t *testing.T) {
	d := newDesk()
	effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
	tool := func(end func() error) saga.Definition {
		return single("fails", func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, effect, hold{Task: "x", What: "a"}); err != nil {
				return nil, err
			}
			return nil, end()
		}, effect)
	}
	for _, c := range []struct {
		name string
		end  func() error
		want tasks.Status
		says string
	}{
		{"a panic", func() error { panic("oops") }, tasks.Failed, "the log"},
		{"an error", func() error { return errors.New("secret") }, tasks.Completed, "The tool failed"},
		{"a failure to be told", func() error { return saga.Failf("too bad") }, tasks.Completed, "too bad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				m := r.manager(nil, tool(c.end))
				r.work(m)
				task := r.until(m, r.start(m, call(m, "fails", "")).ID, c.want)
				if c.want == tasks.Failed {
					require.ErrorContains(t, task.Err, c.says)
					assert.NotContains(t, task.Err.Error(), "oops")
				} else {
					assert.True(t, task.End.Result.IsError)
					assert.Contains(t, text(t, task), c.says)
				}
				left, _ := d.left("x")
				assert.Empty(t, left)
			})
		})
	}
}

func TestWaitingCostsNothing(t *testing.T) {
	r := newRig(t)
	defer r.close()
	m := r.manager(func(c *durable.Config) { c.Limit = -1 }, greeter())
	r.work(m)
	one := func() {
		_, err := m.Start(t.Context(), call(m, "greet", ""))
		require.NoError(t, err)
	}
	one()
	time.Sleep(100 * time.Millisecond)
	before := runtime.NumGoroutine()
	for range 10_000 {
		one()
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && runtime.NumGoroutine() > before; {
		time.Sleep(20 * time.Millisecond)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// A tool that goes on for a while after its task was handed over does not keep it. That a server stops is
// no failure.
func TestWhatIsHandedOverIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := newDesk()
		effect := &saga.Effect[hold, string]{
			Name: "hold", Undo: d.undo,
			Do: func(ctx context.Context, key saga.Key, in hold) (string, error) {
				time.Sleep(time.Second)
				return d.do(ctx, key, in)
			},
		}
		tool := saga.Machine[none, none]{
			Info: saga.Info{Name: "lingers", Tasks: optional, Effects: []saga.Declared{effect}},
			Start: func(t *turn) (saga.Next, error) {
				_, err := saga.Do(t, effect, hold{Task: "x", What: "a"})
				t.Progress(1, 2, "held")
				if err != nil {
					time.Sleep(4 * time.Second)
					return nil, err
				}
				return t.Textf("held")
			},
		}
		var log bytes.Buffer
		a, b := r.manager(func(c *durable.Config) { c.Turns.Log = slog.New(slog.NewTextHandler(&log, nil)) }, tool), r.manager(nil, tool)
		stop := r.work(a)
		task := r.start(a, call(a, "lingers", ""))
		time.Sleep(500 * time.Millisecond)
		go stop()
		time.Sleep(3 * time.Second)
		began := time.Now()
		r.work(b)
		r.until(b, task.ID, tasks.Completed)
		assert.Less(t, time.Since(began), time.Second)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Contains(t, log.String(), "level=INFO msg=\"turn left to another process\"")
		assert.NotContains(t, log.String(), "level=ERROR")
	})
}
