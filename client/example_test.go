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
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// startServer starts a server with the proposal's tool.
func startServer() *httptest.Server {
	keys, err := codec.NewKeyset()
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(server.Options{
		Tools: []saga.Definition{complextool.Tool}, Keys: keys, Logger: slog.New(slog.DiscardHandler),
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
		Elicit: func(_ context.Context, r *client.ElicitRequest) (*client.ElicitResult, error) {
			fmt.Println("user:", r.Message)
			return client.Accept(map[string]string{"target": "production"}), nil
		},
		Sample: func(_ context.Context, r *client.SampleRequest) (*steps.SampleResult, error) {
			fmt.Println("model:", r.Request.Messages[0].Content.Text())
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
		Elicit: func(context.Context, *client.ElicitRequest) (*client.ElicitResult, error) {
			return nil, client.ErrPause // the user went home
		},
	})
	var stopped *client.Interrupted
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
		Elicit: func(context.Context, *client.ElicitRequest) (*client.ElicitResult, error) {
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
