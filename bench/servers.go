//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// servers are what is measured, by name. Their arguments are those of the process.
var servers = map[string]func(args []string) (http.Handler, error){
	"mcpsaga": func(args []string) (http.Handler, error) {
		return sagaServer(args, complextool.Tool, roundsTool, roundsFlow)
	},
	"mcpsaga-flow": func(args []string) (http.Handler, error) { return sagaServer(args, complexFlow) },
	"mounted":      func([]string) (http.Handler, error) { return mountedServer() },
	"go-sdk":       func([]string) (http.Handler, error) { return sdkServer() },
	"floor":        func([]string) (http.Handler, error) { return floorServer() },
	"proxy":        proxyServer,
}

// sagaServer is this project's, with keys of its own or from a file.
func sagaServer(args []string, tools ...saga.Definition) (http.Handler, error) {
	keys, err := codec.NewKeyset()
	if len(args) > 0 {
		keys, err = codec.LoadKeyset(args[0])
	}
	if err != nil {
		return nil, err
	}
	s, err := server.New(server.Options{Keys: keys, Tools: tools, Audience: "bench", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return s.Handler(), nil
}

// sdkServer is the same tool written by hand with the Go SDK, stateless, with
// JSON responses. Its state is readable and not protected: what one writes who
// has only the SDK.
func sdkServer() (http.Handler, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	type args struct {
		InitialArg string `json:"initial_arg,omitempty"`
	}
	type state struct {
		Step   string `json:"step"`
		Target string `json:"target,omitempty"`
	}
	suspend := func(st state, id string, request mcp.InputRequest) (*mcp.CallToolResult, any, error) {
		raw, err := json.Marshal(st)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{id: request}, RequestState: string(raw)}, nil, nil
	}
	handler := func(_ context.Context, r *mcp.CallToolRequest, _ args) (*mcp.CallToolResult, any, error) {
		var st state
		if r.Params.RequestState != "" {
			if err := json.Unmarshal([]byte(r.Params.RequestState), &st); err != nil {
				return nil, nil, err
			}
		}
		switch st.Step {
		case "":
			return suspend(state{Step: "target"}, "step-elicitation-A", &mcp.ElicitParams{
				Message: "Please provide the deployment target:",
				RequestedSchema: map[string]any{
					"type": "object", "properties": map[string]any{"target": map[string]any{"type": "string"}}, "required": []string{"target"},
				},
			})
		case "target":
			answer, ok := r.Params.InputResponses["step-elicitation-A"].(*mcp.ElicitResult)
			if !ok || answer.Action != "accept" {
				return nil, nil, errors.New("declined")
			}
			target, _ := answer.Content["target"].(string)
			return suspend(state{"advice", target}, "step-sampling-B", &mcp.CreateMessageParams{
				MaxTokens: 100,
				Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf("Is deploying to '%s' safe right now?", target)}}},
			})
		}
		said, err := sampledText(r.Params.InputResponses["step-sampling-B"])
		if err != nil || !strings.HasPrefix(strings.ToLower(said), "yes") {
			return nil, nil, errors.New("not confirmed")
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Deployment to " + st.Target + " initiated successfully based on confirmation."}}}, nil, nil
	}
	mcp.AddTool(s, &mcp.Tool{Name: "complex_tool", Description: "Pretends to deploy."}, handler)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}), nil
}

// mountedServer is the machine mounted on a server of the Go SDK, which is served as
// the other one.
func mountedServer() (http.Handler, error) {
	keys, err := codec.NewKeyset()
	if err != nil {
		return nil, err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	o := gosdk.Options{Keys: keys, Audience: "bench", Logger: slog.New(slog.DiscardHandler)}
	if _, err := gosdk.Mount(s, o, complextool.Tool); err != nil {
		return nil, err
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}), nil
}

func sampledText(response mcp.InputResponse) (string, error) {
	raw, err := json.Marshal(response)
	if err != nil {
		return "", err
	}
	var r struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	var one struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(r.Content, &one) == nil {
		return one.Text, nil
	}
	var many []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(r.Content, &many); err != nil || len(many) == 0 {
		return "", errors.New("no text")
	}
	return many[0].Text, nil
}

// floorServer reads a request and answers with what this project's server
// answered to the same request when the floor was started: the least that any
// server in Go on these two packages can do.
func floorServer() (http.Handler, error) {
	ours, err := sagaServer(nil, complextool.Tool)
	if err != nil {
		return nil, err
	}
	// The results by protocol and turn; ids are the only thing that varies.
	var results [2][turns]json.RawMessage
	for i, w := range []*work{&sagaWork, &mrtrWork} {
		var token []byte
		for turn := range turns {
			body, err := ask(ours, w, turn, token)
			if err != nil {
				return nil, err
			}
			if token, err = w.check(turn, 1, body); err != nil {
				return nil, err
			}
			var response struct {
				Result json.RawMessage `json:"result"`
			}
			if err := json.Unmarshal(body, &response); err != nil {
				return nil, err
			}
			results[i][turn] = response.Result
		}
	}
	type message struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method,omitempty"`
		Params  *struct {
			Name           string                     `json:"name"`
			Arguments      map[string]any             `json:"arguments"`
			SagaToken      string                     `json:"sagaToken"`
			CompletedSteps []map[string]any           `json:"completedSteps"`
			Meta           map[string]any             `json:"_meta"`
			InputResponses map[string]json.RawMessage `json:"inputResponses"`
			RequestState   string                     `json:"requestState"`
		} `json:"params,omitempty"`
		Result json.RawMessage `json:"result,omitempty"`
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m message
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil || m.Params == nil {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		// Other tools' sagas are answered as well, as if they never ended.
		protocol, turn := 0, min(len(m.Params.CompletedSteps), 1)
		if turn > 0 && m.Params.CompletedSteps[len(m.Params.CompletedSteps)-1]["stepId"] == "step-sampling-B" {
			turn = 2
		}
		if m.Method == "tools/call" {
			protocol, turn = 1, min(len(m.Params.InputResponses), 1)
			if _, ok := m.Params.InputResponses["step-sampling-B"]; ok {
				turn = 2
			}
		}
		out, err := json.Marshal(message{JSONRPC: "2.0", ID: m.ID, Result: results[protocol][turn]})
		if err != nil {
			http.Error(w, "failed", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(out)
	}), nil
}
