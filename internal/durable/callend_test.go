package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

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
		plain("misbehaves", func(t *turn) (saga.Next, error) { return t.Goto("nowhere") }),
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
	seen := spied(r)
	m := r.manager(nil, ends()...)
	require.NoError(t, seen.Close())
	for _, kind := range kinds {
		for _, p := range m.Turns.Registry.Of(kind) {
			t.Run(p.Name, func(t *testing.T) {
				s := waited(m, "")
				s.Request.Program, s.Request.Client, s.ID = p, steps.Features{}, "mine"
				want, wantErr := m.Turns.Call(t.Context(), s.Request)
				task, err := m.Start(t.Context(), s)
				if wantErr != nil {
					require.Error(t, err)
					var turn *turns.Error
					require.ErrorAs(t, err, &turn)
					var one, other *engine.StepFailure
					assert.Equal(t, errors.As(wantErr, &one), errors.As(err, &other))
					if one != nil {
						assert.Equal(t, one.Step, other.Step)
					}
					var lacks, lacksToo *engine.UnsupportedError
					assert.Equal(t, errors.As(wantErr, &lacks), errors.As(err, &lacksToo))
					assert.Equal(t, lacks, lacksToo)
					var failed, failedToo *engine.ToolError
					assert.Equal(t, errors.As(wantErr, &failed), errors.As(err, &failedToo))
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
			})
		}
	}
	assert.Zero(t, seen.writes.Load())
	assert.Zero(t, seen.reads.Load())
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

// A turn is bounded as a whole, however many steps it has.
func TestACallIsBoundedAsATurn(t *testing.T) {
	naps := func(t *turn) (saga.Next, error) {
		select {
		case <-t.Done():
			return nil, t.Err()
		case <-time.After(25 * time.Second):
			return t.Goto("nap")
		}
	}
	for _, tool := range []saga.Definition{
		plain("waits", func(t *turn) (saga.Next, error) { <-t.Done(); return nil, t.Err() }),
		plain("waits", naps, saga.Steps[none, none]{"nap": naps}),
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			runner := r.runner(tool)
			runner.Timeout = time.Minute
			m, err := durable.New(durable.Config{Turns: runner, Store: r.store})
			require.NoError(t, err)
			r.work(m)
			began := time.Now()
			task := r.start(m, waited(m, "waits"))
			task = r.until(m, task.ID, tasks.Failed)
			assert.Equal(t, time.Minute, time.Since(began))
			require.ErrorContains(t, task.Err, "The tool took too long.")
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

// The end of a session cancels the calls that were begun with it, however many, and no others. It can be said again.
func TestCallsEndWithTheirSession(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, asks("ask"))
		r.work(m)
		begin := func(principal, session string) string {
			s := waited(m, "ask")
			s.Request.Principal, s.Session = principal, session
			return r.start(m, s).ID
		}
		var ended []string
		for range durable.PageSize + 1 {
			ended = append(ended, begin("p", "s"))
		}
		outlive := map[string]string{begin("p", ""): "p", begin("p", "t"): "p", begin("q", "s"): "q"}
		require.NoError(t, m.EndSession(t.Context(), "p", "s"))
		require.NoError(t, m.EndSession(t.Context(), "p", "s"))
		for _, id := range ended {
			r.until(m, id, tasks.Cancelled)
		}
		for id, principal := range outlive {
			task, err := m.Get(t.Context(), principal, id)
			require.NoError(t, err)
			assert.Equal(t, tasks.InputRequired, task.Status)
		}
	})
}
