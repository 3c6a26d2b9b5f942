package legacy_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
)

func Example() {
	older := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newServer() }, nil))
	defer older.Close()

	c := client.New(&client.HTTP{URL: older.URL}, client.Options{Sessions: legacy.Open})
	defer c.Close()
	prompt, err := c.GetPrompt(context.Background(), "greet", nil, client.Handlers{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(prompt.Messages), "message")
	// Output: 1 message
}
