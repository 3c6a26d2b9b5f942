//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// servers are what is measured, by name. Their arguments are those of the process.
var servers = map[string]func(args []string) http.Handler{
	"mcpsaga":      func([]string) http.Handler { return toolServer(complextool.Tool) },
	"mcpsaga-flow": func([]string) http.Handler { return toolServer(flow) },
	"ledger":       ledgerServer,
	"mounted": func([]string) http.Handler {
		return sdkServer(func(s *mcp.Server) {
			must(gosdk.Mount(s, gosdk.Options{Keys: must(codec.NewKeyset()), Audience: "bench", Logger: slog.New(slog.DiscardHandler)}, complextool.Tool))
		})
	},
	"go-sdk": func([]string) http.Handler {
		return sdkServer(func(s *mcp.Server) {
			mcp.AddTool(s, &mcp.Tool{Name: "complex_tool", Description: "Pretends to deploy."}, byHand)
		})
	},
}

type arguments struct {
	InitialArg string `json:"initial_arg,omitempty"`
}

type targetForm struct {
	Target string `json:"target"`
}

var (
	askTarget = &steps.Form[targetForm]{ID: wanted[0], Message: "Please provide the deployment target:"}
	askAdvice = &steps.Sample{ID: wanted[1], Request: steps.SampleRequest{MaxTokens: 100}}
)

// flow is complex_tool as a flow.
var flow = saga.Flow[arguments, string]{
	Info: saga.Info{Name: "complex_tool", Description: "Pretends to deploy.", Asks: []steps.Question{askTarget, askAdvice}},
	Run: func(r *saga.Run, _ arguments) (string, error) {
		form, err := saga.Ask(r, askTarget)
		if err != nil {
			return "", err
		}
		said, err := saga.Ask(r, askAdvice.With(steps.Promptf("Is deploying to '%s' safe right now?", form.Target)))
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(strings.ToLower(said.Text()), "yes") {
			return "", saga.Failf("not confirmed")
		}
		return "Deployment to " + form.Target + " initiated successfully based on confirmation.", nil
	},
}

func toolServer(tool saga.Definition) http.Handler {
	return serverOf(server.Options{Tools: []saga.Definition{tool}})
}

func serverOf(o server.Options) http.Handler {
	o.Audience, o.Logger, o.Keys = "bench", slog.New(slog.DiscardHandler), must(codec.NewKeyset())
	return must(server.New(o)).Handler()
}

// userHeader says who sends a request, so that limits for each user do not bound the load.
const userHeader = "Bench-User"

// ledgerServer is this project's server with a ledger: memory, sqlite and a path, or none.
func ledgerServer(args []string) http.Handler {
	o := server.Options{
		Tools: []saga.Definition{complextool.Tool},
		Authenticate: func(r *http.Request) (saga.Caller, error) {
			return saga.Caller{Subject: r.Header.Get(userHeader)}, nil
		},
	}
	switch args[0] {
	case "memory":
		o.Ledger = ledger.NewMemory(ledger.MemoryOptions{})
	case "sqlite":
		o.Ledger = must(sqlite.Open(context.Background(), args[1]))
	}
	return serverOf(o)
}

// sdkServer is a server of the Go SDK without sessions, with JSON responses.
func sdkServer(add func(*mcp.Server)) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	add(s)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// byHand is the same tool written by hand with the Go SDK, as its documentation shows. Clients
// can read and change its state.
func byHand(_ context.Context, r *mcp.CallToolRequest, _ arguments) (*mcp.CallToolResult, any, error) {
	var st struct {
		Step   string `json:"step"`
		Target string `json:"target,omitempty"`
	}
	if r.Params.RequestState != "" {
		if err := json.Unmarshal([]byte(r.Params.RequestState), &st); err != nil {
			return nil, nil, err
		}
	}
	suspend := func(step, id string, request mcp.InputRequest) (*mcp.CallToolResult, any, error) {
		st.Step = step
		raw, err := json.Marshal(st)
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{id: request}, RequestState: string(raw)}, nil, err
	}
	switch st.Step {
	case "":
		return suspend("target", wanted[0], &mcp.ElicitParams{
			Message: "Please provide the deployment target:",
			RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"target": map[string]any{"type": "string"}}, "required": []string{"target"},
			},
		})
	case "target":
		answer, ok := r.Params.InputResponses[wanted[0]].(*mcp.ElicitResult)
		if !ok || answer.Action != "accept" {
			return nil, nil, errors.New("declined")
		}
		st.Target, _ = answer.Content["target"].(string)
		return suspend("advice", wanted[1], &mcp.CreateMessageParams{
			MaxTokens: 100,
			Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Is deploying to '" + st.Target + "' safe right now?"}}},
		})
	}
	said, ok := r.Params.InputResponses[wanted[1]].(*mcp.CreateMessageWithToolsResult)
	if !ok || len(said.Content) == 0 {
		return nil, nil, errors.New("no completion")
	}
	if text, ok := said.Content[0].(*mcp.TextContent); !ok || !strings.HasPrefix(strings.ToLower(text.Text), "yes") {
		return nil, nil, errors.New("not confirmed")
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Deployment to " + st.Target + " initiated successfully based on confirmation."}}}, nil, nil
}
