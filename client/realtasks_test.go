package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// report has to be a task: it tells how far it is, sleeps, and asks twice.
var report = saga.Flow[topic, string]{
	Info: saga.Info{Name: "report", Asks: []steps.Question{askTone}, Tasks: saga.Tasks{Mode: saga.TasksRequired, Poll: 100 * time.Millisecond}},
	Run: func(r *saga.Run, in topic) (string, error) {
		r.Progress(1, 2, "reading about "+in.Topic)
		if err := r.Sleep(100 * time.Millisecond); err != nil {
			return "", err
		}
		first, err := saga.Ask(r, askTone)
		if err != nil {
			return "", err
		}
		second, err := saga.Ask(r, askTone)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s: %s and %s", in.Topic, first.Tone, second.Tone), nil
	},
}

// later asks by rounds first, and is a task from the answer on.
var later = saga.Flow[none, string]{
	Info: saga.Info{Name: "later", Asks: []steps.Question{askTone}, Tasks: saga.Tasks{Mode: saga.TasksRequired, After: "tone", Poll: 100 * time.Millisecond}},
	Run: func(r *saga.Run, _ none) (string, error) {
		tone, err := saga.Ask(r, askTone)
		return "later: " + tone.Tone, err
	},
}

var breaks = saga.Flow[none, string]{
	Info: saga.Info{Name: "breaks", Tasks: saga.Tasks{Mode: saga.TasksRequired}},
	Run:  func(*saga.Run, none) (string, error) { panic("a secret") },
}

// both can be a task, and a saga.
var both = saga.Flow[none, string]{
	Info: saga.Info{Name: "both", Asks: []steps.Question{askTone}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
	Run: func(r *saga.Run, _ none) (string, error) {
		tone, err := saga.Ask(r, askTone)
		return "both: " + tone.Tone, err
	},
}

// startTasks starts a server that works on tasks, and returns how to stop it.
func startTasks() (*httptest.Server, func()) {
	keys, err := codec.NewKeyset()
	if err != nil {
		log.Fatal(err)
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	s, err := server.New(server.Options{
		Tools: []saga.Definition{report, later, breaks, both}, Keys: keys, Ledger: store, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	running := httptest.NewServer(s.Handler())
	return running, func() {
		running.Close()
		s.Close()
		_ = store.Close()
	}
}

func ExampleClient_Task() {
	running, stop := startTasks()
	defer stop()
	c := client.New(&client.HTTP{URL: running.URL + "/mcp"}, client.Options{})
	defer c.Close()

	handlers := client.Handlers{ // whose presence tells the server what it may ask
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			fmt.Println("user:", r.Message)
			return client.Accept(map[string]string{"tone": "warm"}), nil
		},
		OnPosition: func(context.Context, client.Position) error { return client.ErrPause }, // begin, and leave
	}
	_, err := c.Call(context.Background(), "report", map[string]string{"topic": "tea"}, handlers)
	var stopped *client.InterruptedError
	if !errors.As(err, &stopped) {
		log.Fatal(err)
	}
	task, err := c.Task(context.Background(), stopped.Position)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("it has ended:", task.Ended())

	handlers.OnPosition = nil
	result, err := c.Resume(context.Background(), stopped.Position, handlers)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content.Text())
	// Output:
	// it has ended: false
	// user: How shall it sound?
	// user: How shall it sound?
	// tea: warm and warm
}

// Tasks of a real server are driven to their ends.
func TestRealTasks(t *testing.T) {
	t.Parallel()
	own, stop := startTasks()
	t.Cleanup(stop)
	address := own.URL + server.Endpoint
	open := func(options client.Options) *client.Client {
		c := client.New(&client.HTTP{URL: address}, options)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := open(client.Options{})
	var who people
	h := answering(&who)
	var seen []string
	h.OnProgress = func(p client.Progress) {
		if p.Task != nil {
			seen = append(seen, p.Task.Status)
		}
	}
	got, err := c.Call(t.Context(), "report", topic{Topic: "tea"}, h)
	require.NoError(t, err)
	assert.Equal(t, "tea: warm and warm", got.Content.Text())
	assert.Equal(t, 2, who.elicited)
	assert.Equal(t, "working", seen[0])
	assert.Equal(t, "completed", seen[len(seen)-1])

	following := h
	following.OnPosition = func(_ context.Context, p client.Position) error {
		assert.False(t, p.Task != "" && (p.Token != "" || len(p.Answers) > 0), "nothing of the rounds is left")
		return nil
	}
	got, err = c.Call(t.Context(), "later", nil, following)
	require.NoError(t, err)
	assert.Equal(t, "later: warm", got.Content.Text())

	_, err = c.Call(t.Context(), "breaks", nil, h)
	var ended *client.TaskError
	require.ErrorAs(t, err, &ended)
	assert.Equal(t, "failed", ended.Task.Status)
	assert.NotContains(t, err.Error(), "secret")

	// What can be both is a saga, unless tasks are wanted.
	leave := h
	leave.OnPosition = func(context.Context, client.Position) error { return client.ErrPause }
	_, err = open(client.Options{PreferTasks: true}).Call(t.Context(), "both", nil, leave)
	require.ErrorIs(t, err, client.ErrPause)
	position := throughJSON(t, interrupted(t, err))
	assert.NotEmpty(t, position.Task)
	elsewhere := open(client.Options{})
	got, err = elsewhere.Resume(t.Context(), position, h)
	require.NoError(t, err)
	assert.Equal(t, "both: warm", got.Content.Text())
	_, err = c.Call(t.Context(), "both", nil, leave)
	assert.Empty(t, interrupted(t, err).Task)

	_, err = c.Call(t.Context(), "report", topic{Topic: "tea"}, leave)
	position = throughJSON(t, interrupted(t, err))
	_, err = elsewhere.Cancel(t.Context(), position)
	require.ErrorAs(t, err, &ended)
	assert.Equal(t, "cancelled", ended.Task.Status)
	_, err = elsewhere.Resume(t.Context(), position, h)
	require.ErrorAs(t, err, &ended)

	position.Task = "another"
	_, err = elsewhere.Resume(t.Context(), position, h)
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.EqualValues(t, -32602, refused.Code)
}
