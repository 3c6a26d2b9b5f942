package gosdk_test

import (
	"context"
	"fmt"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type meal struct {
	Dish string `json:"dish" title:"Dish" enum:"soup=Soup of the day|pasta=Pasta"`
}

var askMeal = &steps.Form[meal]{ID: "meal", Message: "What would you like?"}

var lunch = saga.Flow[struct{}, string]{
	Info: saga.Info{Name: "order_lunch", Asks: []steps.Question{askMeal}},
	Run: func(r *saga.Run, _ struct{}) (string, error) {
		m, err := saga.Ask(r, askMeal)
		if err != nil {
			return "", err
		}
		return "Ordered " + m.Dish + ".", nil
	},
}

func ExampleMount() {
	ctx := context.Background()
	keys, err := codec.NewKeyset()
	if err != nil {
		log.Fatal(err)
	}

	// A server of the SDK, as you have it, and a saga.
	s := mcp.NewServer(&mcp.Implementation{Name: "canteen", Version: "1.0.0"}, nil)
	if _, err := gosdk.Mount(s, gosdk.Options{Keys: keys}, lunch); err != nil {
		log.Fatal(err)
	}

	// A client of the SDK, whose user likes pasta.
	there, here := mcp.NewInMemoryTransports()
	if _, err := s.Connect(ctx, there, nil); err != nil {
		log.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "guest", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			fmt.Println(r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"dish": "pasta"}}, nil
		},
	})
	session, err := client.Connect(ctx, here, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "order_lunch"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)

	// Output:
	// What would you like?
	// Ordered pasta.
}
