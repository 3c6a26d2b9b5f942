//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// servers are what is measured, by name. Their arguments are those of the process.
var servers = map[string]func(args []string) http.Handler{
	"mcpsaga":      func(args []string) http.Handler { return sagaServer(args, complextool.Tool, roundsTool, roundsFlow) },
	"mcpsaga-flow": func(args []string) http.Handler { return sagaServer(args, complextool.Flow) },
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
	"floor": floorServer,
	"proxy": proxyServer,
}

// sagaServer is this project's, with keys of its own or from a file.
func sagaServer(args []string, tools ...saga.Definition) http.Handler {
	o := server.Options{Tools: tools}
	if len(args) > 0 {
		o.Keys = must(codec.LoadKeyset(args[0]))
	}
	return serverOf(o)
}

func serverOf(o server.Options) http.Handler {
	o.Audience, o.Logger = "bench", slog.New(slog.DiscardHandler)
	if o.Keys == nil {
		o.Keys = must(codec.NewKeyset())
	}
	return must(server.New(o)).Handler()
}

// sdkServer is one of the Go SDK without sessions, with JSON responses.
func sdkServer(add func(*mcp.Server)) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	add(s)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// byHand is the same tool written by hand with the Go SDK. Its state is readable and
// not protected: what one writes who has only the SDK.
func byHand(_ context.Context, r *mcp.CallToolRequest, _ struct {
	InitialArg string `json:"initial_arg,omitempty"`
}) (*mcp.CallToolResult, any, error) {
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

// floorServer reads a request and answers with what this project's server
// answered to the same request when the floor was started: the least that any
// server in Go on these two packages can do.
func floorServer([]string) http.Handler {
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
	ours, results := within(sagaServer(nil, complextool.Tool)), map[*dialect][]message{}
	for _, d := range []*dialect{proposal, mrtr} {
		deploy(d).all(func(header map[string]string, request []byte) []byte {
			var m message
			body := ours(header, request)
			check(json.Unmarshal(body, &m))
			results[d] = append(results[d], m)
			return body
		}, wanted[:]...)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m message
		if err != nil || json.Unmarshal(body, &m) != nil || m.Params == nil {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		// Other tools' sagas are answered as well, as if they never ended.
		d, turn := proposal, 0
		if m.Method == "tools/call" {
			d = mrtr
		}
		if bytes.Contains(body, []byte(wanted[1])) {
			turn = 2
		} else if m.Params.SagaToken != "" || m.Params.RequestState != "" {
			turn = 1
		}
		out, _ := json.Marshal(message{JSONRPC: "2.0", ID: m.ID, Result: results[d][turn].Result})
		w.Header().Set("Content-Type", "application/json")
		w.Write(out)
	})
}

// proxyServer passes each request on to the next of the servers given.
func proxyServer(addresses []string) http.Handler {
	var next atomic.Uint64
	return &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addresses[next.Add(1)%uint64(len(addresses))]})
			r.Out.Host = r.In.Host
		},
	}
}
