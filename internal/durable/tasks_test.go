package durable_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// rig is servers that share a ledger.
type rig struct {
	t     *testing.T
	store store.Store
	keys  *codec.Keyset
	mu    sync.Mutex // guards stops: some servers begin in a tool's code
	stops []func()
}

func newRig(t *testing.T) *rig {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	r := &rig{t: t, store: store.NewMemory(nil), keys: keys}
	return r
}

// runner makes a server's runner of turns.
func (r *rig) runner(tools ...saga.Definition) *turns.Runner {
	c, err := tokens.New(r.keys, tokens.Options{Audience: "test"})
	require.NoError(r.t, err)
	registry, err := engine.NewRegistry(tools...)
	require.NoError(r.t, err)
	runner := turns.New(turns.Config{Registry: registry, Codec: c, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	return runner
}

// manager makes a server; config may be nil.
func (r *rig) manager(config func(*durable.Config), tools ...saga.Definition) *durable.Core {
	c := durable.Config{Turns: r.runner(tools...), Store: r.store}
	if config != nil {
		config(&c)
	}
	m, err := durable.New(c)
	require.NoError(r.t, err)
	return m
}

// work has a manager work until stop is called.
func (r *rig) work(m *durable.Core) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Work(ctx)
	}()
	stop = func() { cancel(); <-done }
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops = append(r.stops, stop)
	return stop
}

func (r *rig) close() {
	r.mu.Lock()
	stops := r.stops
	r.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

func call(m *durable.Core, name string, args string) tasks.Start {
	return tasks.Start{Request: turns.Request{
		Policy: turns.Carried, Method: "tools/call", Principal: "p", Client: steps.AllFeatures(),
		Program: m.Turns.Registry.Find(engine.KindTool, name), Arguments: json.RawMessage(args),
	}}
}

// until watches a task until it is in a status.
func (r *rig) until(m *durable.Core, id string, want tasks.Status) *tasks.Task {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 48*time.Hour)
	defer cancel()
	var last *tasks.Task
	for task, err := range m.Watch(ctx, "p", id, 0) {
		require.NoError(r.t, err)
		if last = task; task.Status == want {
			return task
		}
	}
	require.Failf(r.t, "the task ended otherwise", "%+v", last)
	return nil
}

func text(t *testing.T, task *tasks.Task) string {
	t.Helper()
	require.NotNil(t, task.End)
	raw, err := json.Marshal(task.End.Result.Content)
	require.NoError(t, err)
	return string(raw)
}

var nameForm = &steps.Form[struct {
	Name string `json:"name"`
}]{ID: "name", Message: "Your name?"}

type none struct{}

type turn = saga.Turn[none, none]

// greeter asks for a name and greets.
func greeter() saga.Definition {
	return saga.Machine[none, none]{
		Info:  saga.Info{Name: "greet", Tasks: saga.Tasks{Mode: saga.TasksOptional}, Asks: []steps.Question{nameForm}},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("hello", nameForm) },
		Steps: saga.Steps[none, none]{"hello": func(t *turn) (saga.Next, error) {
			name, err := nameForm.Answer(t)
			if err != nil {
				return nil, err
			}
			return t.Textf("Hello, %s", name.Name)
		}},
	}
}

func accept(id, content string) steps.Answer {
	return steps.Answer{StepID: id, Result: json.RawMessage(`{"action":"accept","content":` + content + `}`)}
}

func TestATaskAsksAndEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, greeter())
		r.work(m)
		synctest.Wait()
		task, err := m.Start(t.Context(), call(m, "greet", ""))
		require.NoError(t, err)
		assert.Equal(t, tasks.Working, task.Status)
		assert.NotEmpty(t, task.ID)
		task = r.until(m, task.ID, tasks.InputRequired)
		require.Len(t, task.Questions, 1)
		id := task.Questions[0].ID
		_, err = m.Answer(t.Context(), "p", task.ID, []steps.Answer{accept("other", `{}`)})
		require.NoError(t, err)
		_, err = m.Answer(t.Context(), "p", task.ID, []steps.Answer{{StepID: id, Result: json.RawMessage(`{"action":"sing"}`)}})
		require.ErrorAs(t, err, new(*engine.AnswerError))
		_, err = m.Answer(t.Context(), "q", task.ID, []steps.Answer{accept(id, `{"name":"Ada"}`)})
		require.ErrorIs(t, err, tasks.ErrNotFound)
		_, err = m.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(id, `{"name":"Ada"}`)})
		require.NoError(t, err)
		task = r.until(m, task.ID, tasks.Completed)
		assert.Contains(t, text(t, task), "Hello, Ada")
		again, err := m.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Completed, again.Status)
		events, err := m.Logged(t.Context(), "p", task.ID, 0)
		require.NoError(t, err)
		require.Len(t, events, 2)
		assert.NotNil(t, events[0].Question)
		assert.True(t, events[1].End)
		list, next, err := m.List(t.Context(), "p", "", 10)
		require.NoError(t, err)
		assert.Empty(t, next)
		assert.Len(t, list, 1)
		time.Sleep(25 * time.Hour)
		_, err = m.Get(t.Context(), "p", task.ID)
		require.ErrorIs(t, err, tasks.ErrNotFound)
	})
}

func TestAWaitingTaskIsCancelledOrExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, greeter())
		r.work(m)
		synctest.Wait()
		first, err := m.Start(t.Context(), call(m, "greet", ""))
		require.NoError(t, err)
		second, err := m.Start(t.Context(), call(m, "greet", ""))
		require.NoError(t, err)
		r.until(m, first.ID, tasks.InputRequired)
		r.until(m, second.ID, tasks.InputRequired)
		_, err = m.Cancel(t.Context(), "p", first.ID)
		require.NoError(t, err)
		r.until(m, first.ID, tasks.Cancelled)
		begin := time.Now()
		failed := r.until(m, second.ID, tasks.Failed)
		assert.InDelta(t, 24*time.Hour, time.Since(begin), float64(time.Second))
		require.ErrorContains(t, failed.Err, "time to live")
	})
}

func TestATaskGoesOnElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.manager(nil, greeter()), r.manager(nil, greeter())
		task, err := a.Start(t.Context(), call(a, "greet", "")) // which does not work
		require.NoError(t, err)
		assert.Equal(t, tasks.Queued, task.Status)
		stop := r.work(b)
		task = r.until(a, task.ID, tasks.InputRequired)
		stop()
		_, err = a.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Bo"}`)})
		require.NoError(t, err)
		r.work(a)
		r.until(b, task.ID, tasks.Completed)
	})
}

// A deployment need not have a name.
func TestAnEmptyAudience(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(func(c *durable.Config) {
			var err error
			c.Turns.Codec, err = tokens.New(r.keys, tokens.Options{})
			require.NoError(t, err)
		}, single("quick", func(t *turn) (saga.Next, error) { return t.Textf("done") }))
		r.work(m)
		r.until(m, r.start(m, call(m, "quick", "")).ID, tasks.Completed)
	})
}
