package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A call can be put aside in the middle. Its position is JSON; another process
// goes on with it, and may meet another server.
func Example_driving() {
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	replica := func() *httptest.Server {
		s, err := server.New(server.Options{Tools: []saga.Definition{Lunch}, Keys: keys})
		if err != nil {
			panic(err)
		}
		return httptest.NewServer(s.Handler())
	}
	ctx := context.Background()

	first := replica()
	c := client.New(&client.HTTP{URL: first.URL + server.Endpoint}, client.Options{})
	_, err = c.Call(ctx, "order_lunch", map[string]any{"office": "Oslo"}, client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			return nil, client.ErrPause // the user is not there
		},
	})
	var stopped *client.InterruptedError
	if !errors.As(err, &stopped) {
		fmt.Println(err)
		return
	}
	saved, err := json.Marshal(stopped.Position)
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Close()
	first.Close()

	second := replica()
	defer second.Close()
	c = client.New(&client.HTTP{URL: second.URL + server.Endpoint}, client.Options{})
	defer c.Close()
	var position client.Position
	if err := json.Unmarshal(saved, &position); err != nil {
		fmt.Println(err)
		return
	}
	result, err := c.Resume(ctx, position, client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			fmt.Println(r.Message)
			return client.Accept(meal{Dish: "pasta"}), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content.Text())
	// Output:
	// What would you like?
	// Ordered pasta for Oslo.
}
