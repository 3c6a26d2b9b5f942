package tasks_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestACallGoesOnElsewhere(t *testing.T) {
	for _, how := range []string{"stopped", "killed", "answered elsewhere"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				l := newLink(r.store, newRand(), -1, 0)
				a, err := tasks.New(tasks.Config{Turns: r.runner(l, asks("ask"))})
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

func TestPromptsAndResourcesEndElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		long := func(then func(t *turn) (saga.Next, error)) func(t *turn) (saga.Next, error) {
			return func(t *turn) (saga.Next, error) { time.Sleep(time.Second); return then(t) }
		}
		machine := func(name string, then func(t *turn) (saga.Next, error)) saga.Machine[none, none] {
			return saga.Machine[none, none]{Info: saga.Info{Name: name}, Start: long(then)}
		}
		defs := []saga.Definition{
			saga.Prompt[none, none]{Machine: machine("good", func(t *turn) (saga.Next, error) { return t.Messages(saying) })},
			saga.Prompt[none, none]{Machine: machine("bad", func(t *turn) (saga.Next, error) { return nil, saga.Failf("not today") })},
			saga.Resource[none, none]{URI: "note://x", Machine: machine("there", func(t *turn) (saga.Next, error) { return t.Contents(content.ResourceContents{Text: "contents"}) })},
			saga.Resource[none, none]{URI: "note://y", Machine: machine("gone", func(t *turn) (saga.Next, error) { return nil, saga.ErrNotFound })},
		}
		m, other := r.manager(nil, defs...), r.manager(nil, defs...)
		r.work(m)
		ended := func(kind engine.Kind, name string) *tasks.Task {
			s := waited(m, "")
			s.Request.Program = m.Turns.Registry.Find(kind, name)
			require.NotNil(t, s.Request.Program, name)
			task := r.start(m, s)
			require.NotEmpty(t, task.ID)
			for found, err := range other.Watch(t.Context(), "p", task.ID, 0) {
				require.NoError(t, err)
				task = found
			}
			require.NotNil(t, task.Program)
			assert.Equal(t, kind, task.Program.Kind)
			return task
		}
		assert.Len(t, ended(engine.KindPrompt, "good").End.Messages.Messages, 1)
		var failed *engine.ToolError
		require.ErrorAs(t, ended(engine.KindPrompt, "bad").Err, &failed)
		assert.Equal(t, "not today", failed.Text)
		assert.True(t, failed.Disclosed)
		assert.Equal(t, "contents", ended(engine.KindResource, "there").End.Contents[0].Text)
		require.ErrorIs(t, ended(engine.KindResource, "gone").Err, engine.ErrNotFound)
	})
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
		only := r.manager(func(c *tasks.Config) { c.CallsOnly = true }, greeter())
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

func TestACallWhileTheServerStops(t *testing.T) {
	slow := func(d time.Duration) saga.Definition {
		return plain("slow", func(t *turn) (saga.Next, error) {
			select {
			case <-time.After(d):
				return t.Textf("done here")
			case <-t.Done():
				return nil, t.Err()
			}
		})
	}
	for _, test := range []struct {
		name  string
		begun time.Duration // before the server stops; negative: after
		takes time.Duration
		here  bool
	}{
		{"it ends in time", 10 * time.Millisecond, 2 * time.Second, true},
		{"it has a record and ends in time", time.Second, 4 * time.Second, true},
		{"it takes too long", 10 * time.Millisecond, time.Minute, false},
		{"it begins in the grace", -time.Second, 2 * time.Second, true},
		{"it begins after the grace", -20 * time.Second, 2 * time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				a := r.manager(nil, slow(test.takes))
				b := r.manager(nil, plain("slow", func(t *turn) (saga.Next, error) { return t.Textf("done elsewhere") }))
				stop := r.work(a)
				// Something keeps the grace from being over at once.
				r.start(a, waited(a, "slow"))
				stopped := make(chan struct{})
				begin := func() (task *tasks.Task) {
					task, err := a.Start(t.Context(), waited(a, "slow"))
					require.NoError(t, err)
					return task
				}
				end := func() { go func() { stop(); close(stopped) }() }
				var task *tasks.Task
				if test.begun >= 0 {
					time.AfterFunc(test.begun, end)
					task = begin()
				} else {
					end()
					time.Sleep(-test.begun)
					task = begin()
				}
				require.NotEmpty(t, task.ID)
				<-stopped
				r.work(b)
				want := "done elsewhere"
				if test.here {
					want = "done here"
				}
				assert.Contains(t, text(t, r.until(b, task.ID, tasks.Completed)), want)
			})
		})
	}
}
