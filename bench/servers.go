//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
var servers = map[string]func(args []string) (http.Handler, error){
	"mcpsaga": func(args []string) (http.Handler, error) {
		return sagaServer(args, complextool.Tool, roundsTool, roundsFlow)
	},
	"mcpsaga-flow": func(args []string) (http.Handler, error) { return sagaServer(args, complextool.Flow) },
	"mounted": func([]string) (http.Handler, error) {
		return sdkServer(func(s *mcp.Server) error {
			keys, err := codec.NewKeyset()
			if err == nil {
				_, err = gosdk.Mount(s, gosdk.Options{Keys: keys, Audience: "bench", Logger: slog.New(slog.DiscardHandler)}, complextool.Tool)
			}
			return err
		})
	},
	"go-sdk": func([]string) (http.Handler, error) {
		return sdkServer(func(s *mcp.Server) error {
			mcp.AddTool(s, &mcp.Tool{Name: "complex_tool", Description: "Pretends to deploy."}, byHand)
			return nil
		})
	},
	"floor": floorServer,
	"proxy": proxyServer,
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

// sdkServer is one of the Go SDK without sessions, with JSON responses.
func sdkServer(add func(*mcp.Server) error) (http.Handler, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	err := add(s)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}), err
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
			Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf("Is deploying to '%s' safe right now?", st.Target)}}},
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
func floorServer([]string) (http.Handler, error) {
	ours, err := sagaServer(nil, complextool.Tool)
	if err != nil {
		return nil, err
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
	results := map[*dialect]*[turns]message{proposal: {}, mrtr: {}} // ids are the only thing that varies
	for d, all := range results {
		t := deploy(d)
		for turn := range turns {
			r, rec := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", bytes.NewReader(t.request(1))), httptest.NewRecorder()
			for k, v := range t.header {
				r.Header.Set(k, v)
			}
			ours.ServeHTTP(rec, r)
			if err := t.take(1, rec.Body.Bytes(), wanted[turn], turn == turns-1); err != nil {
				return nil, err
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &all[turn]); err != nil {
				return nil, err
			}
		}
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
		d, turn := proposal, 0
		if m.Method == "tools/call" {
			d = mrtr
		}
		switch {
		case bytes.Contains(body, []byte(wanted[1])):
			turn = 2
		case m.Params.SagaToken != "" || m.Params.RequestState != "":
			turn = 1
		}
		out, err := json.Marshal(message{JSONRPC: "2.0", ID: m.ID, Result: results[d][turn].Result})
		if err != nil {
			http.Error(w, "failed", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(out)
	}), nil
}

// proxyServer passes each request on to the next of the servers given.
func proxyServer(addresses []string) (http.Handler, error) {
	var next atomic.Uint64
	return &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addresses[next.Add(1)%uint64(len(addresses))]})
			r.Out.Host = r.In.Host
		},
	}, nil
}
