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
	"mcpsaga-flow": func(args []string) (http.Handler, error) { return sagaServer(args, complexFlow) },
	"mounted": func([]string) (http.Handler, error) {
		s := newSDKServer()
		keys, err := codec.NewKeyset()
		if err != nil {
			return nil, err
		}
		_, err = gosdk.Mount(s, gosdk.Options{Keys: keys, Audience: "bench", Logger: slog.New(slog.DiscardHandler)}, complextool.Tool)
		return sdkHandler(s), err
	},
	"go-sdk": func([]string) (http.Handler, error) {
		s := newSDKServer()
		mcp.AddTool(s, &mcp.Tool{Name: "complex_tool", Description: "Pretends to deploy."}, byHand)
		return sdkHandler(s), nil
	},
	"floor": func([]string) (http.Handler, error) { return floorServer() },
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

func newSDKServer() *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
}

// sdkHandler serves without sessions, with JSON responses.
func sdkHandler(s *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// byHand is the same tool written by hand with the Go SDK. Its state is readable and
// not protected: what one writes who has only the SDK.
func byHand(_ context.Context, r *mcp.CallToolRequest, _ complexArgs) (*mcp.CallToolResult, any, error) {
	var st struct {
		Step   string `json:"step"`
		Target string `json:"target,omitempty"`
	}
	suspend := func(step, target, id string, request mcp.InputRequest) (*mcp.CallToolResult, any, error) {
		st.Step, st.Target = step, target
		raw, err := json.Marshal(st)
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{id: request}, RequestState: string(raw)}, nil, err
	}
	if r.Params.RequestState != "" {
		if err := json.Unmarshal([]byte(r.Params.RequestState), &st); err != nil {
			return nil, nil, err
		}
	}
	switch st.Step {
	case "":
		return suspend("target", "", "step-elicitation-A", &mcp.ElicitParams{
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
		return suspend("advice", target, "step-sampling-B", &mcp.CreateMessageParams{
			MaxTokens: 100,
			Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: fmt.Sprintf("Is deploying to '%s' safe right now?", target)}}},
		})
	}
	said, ok := r.Params.InputResponses["step-sampling-B"].(*mcp.CreateMessageWithToolsResult)
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
func floorServer() (http.Handler, error) {
	ours, err := sagaServer(nil, complextool.Tool)
	if err != nil {
		return nil, err
	}
	// The results by protocol and turn; ids are the only thing that varies.
	results := map[*dialect][turns]json.RawMessage{}
	for _, d := range []*dialect{proposal, mrtr} {
		var all [turns]json.RawMessage
		for turn, t := 0, deploy(d); turn < turns; turn++ {
			rec := httptest.NewRecorder()
			ours.ServeHTTP(rec, t.httpRequest(1))
			if err := t.take(1, rec.Body.Bytes(), wanted[turn], turn == turns-1); err != nil {
				return nil, err
			}
			var response struct{ Result json.RawMessage }
			if err := json.Unmarshal(rec.Body.Bytes(), &response); err != nil {
				return nil, err
			}
			all[turn] = response.Result
		}
		results[d] = all
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
		out, err := json.Marshal(message{JSONRPC: "2.0", ID: m.ID, Result: results[d][turn]})
		if err != nil {
			http.Error(w, "failed", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(out)
	}), nil
}

// httpRequest is the saga's next request, for a handler without a network.
func (t *talk) httpRequest(id int) *http.Request {
	body := t.request(id)
	h := http.Header{"Content-Type": {"application/json"}}
	for k, v := range t.header {
		h.Set(k, v)
	}
	return &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: "/mcp"}, Host: "localhost", Header: h, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)),
	}
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
