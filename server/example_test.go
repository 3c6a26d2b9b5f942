package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// example returns a server for an example.
func example(o server.Options) *server.Server {
	keys, err := codec.NewKeyset()
	if err != nil {
		panic(err)
	}
	o.Keys, o.Logger = keys, slog.New(slog.DiscardHandler)
	s, err := server.New(o)
	if err != nil {
		panic(err)
	}
	return s
}

// message sends a server a message for a host and returns the status and the body.
func message(s *server.Server, host, body string, header ...string) (int, string) {
	r := httptest.NewRequest(http.MethodPost, "http://"+host+"/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// A server's own model answers what tools ask of a model when the client has none.
// The tool does not notice.
func ExampleOptions_sampler() {
	type none struct{}
	askModel := &steps.Sample{ID: "opinion", Request: steps.SampleRequest{MaxTokens: 20}}
	tool := saga.Flow[none, string]{
		Info: saga.Info{
			Name: "ask_model",
			Asks: []steps.Question{askModel},
		},
		Run: func(r *saga.Run, _ none) (string, error) {
			said, err := saga.Ask(r, askModel.With(steps.Promptf("Is it safe?")))
			if err != nil {
				return "", err
			}
			return "The model says: " + said.Text(), nil
		},
	}
	s := example(server.Options{
		Tools: []saga.Definition{tool},
		Sampler: func(_ context.Context, r *steps.SampleRequest) (*steps.SampleResult, error) {
			fmt.Println("the server's model is asked:", r.Messages[0].Content.Text())
			answer := content.Blocks{content.Text{Text: "Yes."}} // in production: call a provider
			return &steps.SampleResult{Role: content.Assistant, Content: answer, Model: "own"}, nil
		},
	})
	// A client that declares no capabilities at all.
	_, body := message(s, "127.0.0.1", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask_model","_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "ask_model")
	var reply struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(reply.Result.Content[0].Text)
	// Output:
	// the server's model is asked: Is it safe?
	// The model says: Yes.
}

// One server speaks three protocols at one endpoint. Each message is answered by
// the rules of its own.
func ExampleServer() {
	type none struct{}
	type nameForm struct {
		Name string `json:"name"`
	}
	askName := &steps.Form[nameForm]{ID: "name", Message: "Who are you?"}
	s := example(server.Options{Tools: []saga.Definition{saga.Flow[none, string]{
		Info: saga.Info{
			Name: "greet",
			Asks: []steps.Question{askName},
		},
		Run: func(r *saga.Run, _ none) (string, error) {
			form, err := saga.Ask(r, askName)
			return "Hello, " + form.Name + ".", err
		},
	}}})

	// The saga proposal.
	_, body := message(s, "127.0.0.1", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"greet"}}`)
	fmt.Println(strings.Contains(body, `"state":"suspended"`))

	// MCP 2026-07-28.
	_, body = message(s, "127.0.0.1", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "greet")
	fmt.Println(strings.Contains(body, `"resultType":"input_required"`))

	// The revisions before begin with a handshake.
	_, body = message(s, "127.0.0.1", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
		"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
	fmt.Println(strings.Contains(body, `"protocolVersion":"2025-06-18"`))
	// Output:
	// true
	// true
	// true
}

// PageSize bounds how much a list returns at once; AllowedHosts are the names that
// a server on the network is called by.
func ExampleOptions() {
	type none struct{}
	named := func(name string) saga.Definition {
		return saga.Flow[none, string]{Info: saga.Info{Name: name}, Run: func(*saga.Run, none) (string, error) { return "Done.", nil }}
	}
	s := example(server.Options{
		Tools:        []saga.Definition{named("one"), named("two"), named("three")},
		PageSize:     2,
		AllowedHosts: []string{"tools.example.com"},
	})
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	status, body := message(s, "tools.example.com", list)
	var page struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(status, page.Result.Tools, "more:", page.Result.NextCursor != "")
	status, _ = message(s, "attacker.example", list)
	fmt.Println(status)
	// Output:
	// 200 [{one} {two}] more: true
	// 403
}
