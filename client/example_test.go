package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// startServer starts a server with the proposal's tool, or with others.
func startServer(tools ...saga.Definition) *httptest.Server {
	if len(tools) == 0 {
		tools = []saga.Definition{complextool.Tool}
	}
	keys, err := codec.NewKeyset()
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(server.Options{
		Tools: tools, Keys: keys, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	return httptest.NewServer(s.Handler())
}

func Example() {
	running := startServer()
	defer running.Close()

	c := client.New(&client.HTTP{URL: running.URL + "/mcp"}, client.Options{})
	defer c.Close()
	result, err := c.Call(context.Background(), "complex_tool", map[string]any{"initial_arg": "value"}, client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			fmt.Println("user:", r.Message)
			return client.Accept(map[string]string{"target": "production"}), nil
		},
		Sample: func(_ context.Context, r *client.Request) (*steps.SampleResult, error) {
			fmt.Println("model:", r.Sample.Messages[0].Content.Text())
			return client.Reply("my-model", "Yes, all systems are green."), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content.Text())
	// Output:
	// user: Please provide the deployment target:
	// model: Is deploying to 'production' safe right now?
	// Deployment to production initiated successfully based on confirmation.
}

// A call can stop at any step and go on later, in another process.
func ExampleClient_Resume() {
	running := startServer()
	defer running.Close()
	c := client.New(&client.HTTP{URL: running.URL + "/mcp"}, client.Options{})
	defer c.Close()

	_, err := c.Call(context.Background(), "complex_tool", map[string]any{"initial_arg": "value"}, client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			return nil, client.ErrPause // the user went home
		},
	})
	var stopped *client.InterruptedError
	if !errors.As(err, &stopped) {
		log.Fatal(err)
	}
	saved, err := json.Marshal(stopped.Position) // keep it where only the user can read it
	if err != nil {
		log.Fatal(err)
	}

	var position client.Position
	if err := json.Unmarshal(saved, &position); err != nil {
		log.Fatal(err)
	}
	fmt.Println("still to be answered:", position.Pending()[0].StepID)
	result, err := c.Resume(context.Background(), position, client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			return client.Decline(), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the tool gave up:", result.IsError)
	// Output:
	// still to be answered: step-elicitation-A
	// the tool gave up: true
}

// A prompt may ask before it gives its messages.
func ExampleClient_GetPrompt() {
	running := startServer(write)
	defer running.Close()
	c := client.New(&client.HTTP{URL: running.URL + "/mcp"}, client.Options{})
	defer c.Close()

	prompt, err := c.GetPrompt(context.Background(), "write", map[string]string{"topic": "tea"}, client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			fmt.Println("user:", r.Message)
			return client.Accept(map[string]string{"tone": "warm"}), nil
		},
		Sample: func(_ context.Context, r *client.Request) (*steps.SampleResult, error) {
			fmt.Println("model:", r.Sample.Messages[0].Content.Text())
			return client.Reply("my-model", "Plain ones."), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, message := range prompt.Messages {
		fmt.Println(message.Role, "says:", message.Content.(content.Text).Text)
	}
	// Output:
	// user: How shall it sound?
	// model: Which words?
	// user says: Write about tea.
	// assistant says: Plain ones.
}

// A resource may ask before it can be read.
func ExampleClient_ReadResource() {
	running := startServer(file)
	defer running.Close()
	c := client.New(&client.HTTP{URL: running.URL + "/mcp"}, client.Options{})
	defer c.Close()

	read, err := c.ReadResource(context.Background(), "files://asks", client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			return client.Accept(map[string]string{"tone": "warm"}), nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, part := range read.Contents {
		if part.Blob != nil {
			fmt.Println(part.URI, "is not text:", len(part.Blob), "bytes of", part.MIMEType)
			continue
		}
		fmt.Println(part.URI, "says:", part.Text)
	}
	// Output:
	// files://asks says: in a warm tone
}
