package gosdk_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type clientTopic struct {
	Topic string `json:"topic"`
}

type clientTone struct {
	Tone   string `json:"tone,omitempty"`
	Target string `json:"target,omitempty"`
}

var (
	askTone = &steps.Form[clientTone]{ID: "tone", Message: "How shall it sound?"}

	writePrompt = saga.Prompt[clientTopic, struct{}]{Machine: saga.Machine[clientTopic, struct{}]{
		Info:  saga.Info{Name: "write", Asks: []steps.Question{askTone}},
		Start: func(t *saga.Turn[clientTopic, struct{}]) (saga.Next, error) { return t.Ask("toned", askTone) },
		Steps: saga.Steps[clientTopic, struct{}]{"toned": func(t *saga.Turn[clientTopic, struct{}]) (saga.Next, error) {
			tone, err := askTone.Answer(t)
			if err != nil {
				return nil, err
			}
			return t.Messages(content.Message{Role: content.User, Content: content.Textf("Write about %s, %s.", t.Args.Topic, tone.Tone)})
		}},
	}}

	fileResource = saga.Resource[clientTopic, struct{}]{
		Template: "files://{topic}",
		Machine: saga.Machine[clientTopic, struct{}]{
			Info: saga.Info{Name: "file", Asks: []steps.Question{askTone}},
			Start: func(t *saga.Turn[clientTopic, struct{}]) (saga.Next, error) {
				if t.Args.Topic != "asks" {
					return nil, saga.ErrNotFound
				}
				return t.Ask("toned", askTone)
			},
			Steps: saga.Steps[clientTopic, struct{}]{"toned": func(t *saga.Turn[clientTopic, struct{}]) (saga.Next, error) {
				tone, err := askTone.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Contents(content.ResourceContents{URI: "files://asks", MIMEType: "text/plain", Text: "in a " + tone.Tone + " tone"})
			}},
		},
	}

	// reportTask has to be a task: it tells how far it is, sleeps, and asks twice.
	reportTask = saga.Flow[clientTopic, string]{
		Info: saga.Info{Name: "report", Asks: []steps.Question{askTone}, Tasks: saga.Tasks{Mode: saga.TasksRequired, Poll: 100 * time.Millisecond}},
		Run: func(r *saga.Run, in clientTopic) (string, error) {
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
			return in.Topic + ": " + first.Tone + " and " + second.Tone, nil
		},
	}

	// laterTask asks by rounds first, and is a task from the answer on.
	laterTask = saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "later", Asks: []steps.Question{askTone}, Tasks: saga.Tasks{Mode: saga.TasksRequired, After: "tone", Poll: 100 * time.Millisecond}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			tone, err := saga.Ask(r, askTone)
			return "later: " + tone.Tone, err
		},
	}

	breakingTask = saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "breaks", Tasks: saga.Tasks{Mode: saga.TasksRequired}},
		Run:  func(*saga.Run, struct{}) (string, error) { panic("a secret") },
	}
)

// Package client drives tools, tasks, prompts and resources of a mount, and goes on elsewhere.
func TestPackageClient(t *testing.T) {
	t.Parallel()
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	h := mount(t, gosdk.Options{Ledger: store}, complextool.Tool, writePrompt, fileResource, reportTask, laterTask, breakingTask)
	web := httptest.NewServer(gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return h.sdk }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(func() {
		web.Close()
		h.shutDown()
	})
	open := func() *client.Client {
		c := client.New(&client.HTTP{URL: web.URL}, client.Options{Protocol: modern})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := open()
	asked := 0
	handlers := client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			asked++
			return client.Accept(clientTone{Tone: "warm", Target: "production"}), nil
		},
		Sample: func(context.Context, *client.Request) (*steps.SampleResult, error) {
			return client.Reply("m", "Yes, it is safe."), nil
		},
	}
	leave := handlers
	leave.OnPosition = func(context.Context, client.Position) error { return client.ErrPause }
	left := func(name string, args any) client.Position {
		t.Helper()
		_, err := c.Call(t.Context(), name, args, leave)
		var stopped *client.InterruptedError
		require.ErrorAs(t, err, &stopped)
		return stopped.Position
	}

	prompt, err := c.GetPrompt(t.Context(), "write", map[string]string{"topic": "tea"}, handlers)
	require.NoError(t, err)
	assert.Equal(t, []content.Message{{Role: content.User, Content: content.Text{Text: "Write about tea, warm."}}}, prompt.Messages)
	read, err := c.ReadResource(t.Context(), "files://asks", handlers)
	require.NoError(t, err)
	assert.Equal(t, "in a warm tone", read.Contents[0].Text)
	_, err = c.ReadResource(t.Context(), "files://nowhere", client.Handlers{})
	require.ErrorAs(t, err, new(*client.Error))

	position := left("complex_tool", map[string]any{"initial_arg": "value"})
	assert.NotEmpty(t, position.Token)
	got, err := open().Resume(t.Context(), position, handlers)
	require.NoError(t, err)
	assert.Contains(t, got.Content.Text(), "initiated successfully")

	asked = 0
	var seen []string
	following := handlers
	following.OnProgress = func(p client.Progress) {
		if p.Task != nil {
			seen = append(seen, p.Task.Status)
		}
	}
	got, err = c.Call(t.Context(), "report", clientTopic{"tea"}, following)
	require.NoError(t, err)
	assert.Equal(t, "tea: warm and warm", got.Content.Text())
	assert.Equal(t, 2, asked)
	assert.Equal(t, "working", seen[0])
	assert.Equal(t, "completed", seen[len(seen)-1])
	got, err = c.Call(t.Context(), "later", nil, handlers)
	require.NoError(t, err)
	assert.Equal(t, "later: warm", got.Content.Text())
	_, err = c.Call(t.Context(), "breaks", nil, handlers)
	var ended *client.TaskError
	require.ErrorAs(t, err, &ended)
	assert.Equal(t, "failed", ended.Task.Status)
	assert.NotContains(t, err.Error(), "secret")

	position = left("report", clientTopic{"tea"})
	_, err = open().Cancel(t.Context(), position)
	require.ErrorAs(t, err, &ended)
	assert.Equal(t, "cancelled", ended.Task.Status)
	position.Task = "another"
	_, err = open().Resume(t.Context(), position, handlers)
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.EqualValues(t, -32602, refused.Code)
}
