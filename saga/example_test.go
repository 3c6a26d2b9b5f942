package saga_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// talk serves a tool, calls it, and answers what it asks with the given replies
// in their order: a *client.ElicitResult is the user's, a string the model's, an
// error the client's. It prints the conversation.
func talk(tool saga.Definition, args map[string]any, replies ...any) {
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := server.New(server.Options{Tools: []saga.Definition{tool}, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	hs := httptest.NewServer(s.Handler())
	defer hs.Close()
	c := client.New(&client.HTTP{URL: hs.URL + server.Endpoint}, client.Options{})
	defer c.Close()

	reply := func() any {
		if len(replies) == 0 {
			return client.ErrPause
		}
		r := replies[0]
		replies = replies[1:]
		return r
	}
	t, err := tool.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := c.Call(context.Background(), t.Name, args, client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			fmt.Printf("%s asks: %s\n", r.StepID, r.Message)
			switch r := reply().(type) {
			case *client.ElicitResult:
				return r, nil
			case error:
				return nil, r
			}
			return client.Cancel(), nil
		},
		Sample: func(_ context.Context, r *client.Request) (*steps.SampleResult, error) {
			fmt.Printf("%s asks the model: %s\n", r.StepID, r.Sample.Messages[0].Content.Text())
			switch r := reply().(type) {
			case string:
				return client.Reply("a-model", r), nil
			case error:
				return nil, r
			}
			return client.Reply("a-model", "I do not know."), nil
		},
	})
	switch {
	case err != nil:
		fmt.Println("interrupted:", err)
	case result.IsError:
		fmt.Println("error:", result.Content.Text())
	case result.StructuredContent != nil:
		fmt.Println("structured result:", string(result.StructuredContent))
	default:
		fmt.Println("result:", result.Content.Text())
	}
}

// fields is what a user enters in a form.
type fields = map[string]any
