package saga_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// object is JSON as examples write it.
type object = map[string]any

// serve returns a server of the given tools with keys of its own; now is its
// clock, or nil.
func serve(now func() time.Time, tools ...saga.Definition) *server.Server {
	keys, err := codec.NewKeyset()
	if err != nil {
		panic(err)
	}
	return serveWith(server.Options{Tools: tools, Keys: keys, Now: now})
}

func serveWith(o server.Options) *server.Server {
	o.Logger = slog.New(slog.DiscardHandler)
	s, err := server.New(o)
	if err != nil {
		panic(err)
	}
	return s
}

// reply is a response, as far as the examples look at it.
type reply struct {
	Status int
	Body   string
	Result struct {
		SagaToken    string
		RequestState string
		Content      []struct{ Text string }
		Messages     []struct {
			Role    string
			Content struct{ Text string }
		}
		Contents []struct{ URI, Text string }
		Meta     struct {
			Undo json.RawMessage `json:"io.github.mcpsaga/undo"`
		} `json:"_meta"`
	}
	Error *struct {
		Code    int
		Message string
	}
}

// print shows what the caller reads.
func (r reply) print() {
	if r.Error != nil {
		fmt.Printf("HTTP %d, error %d: %s\n", r.Status, r.Error.Code, r.Error.Message)
		return
	}
	for _, c := range r.Result.Content {
		fmt.Println("caller:", c.Text)
	}
	for _, m := range r.Result.Messages {
		fmt.Printf("%s: %s\n", m.Role, m.Content.Text)
	}
	for _, c := range r.Result.Contents {
		fmt.Printf("%s: %s\n", c.URI, c.Text)
	}
	if undo := r.Result.Meta.Undo; undo != nil {
		fmt.Println("report:", string(undo))
	}
}

// request sends a message of the saga proposal.
func request(s *server.Server, method string, params object) reply {
	return send(s, method, params, nil)
}

// modern sends a message of MCP 2026-07-28 by a client that can show forms.
func modern(s *server.Server, method string, params object) reply {
	meta := object{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": object{"elicitation": object{}},
	}
	if more, ok := params["_meta"].(object); ok {
		for k, v := range more {
			meta[k] = v
		}
	}
	header := map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	for _, name := range []string{"name", "uri"} {
		if v, ok := params[name].(string); ok {
			header["Mcp-Name"] = v
		}
	}
	all := object{"_meta": meta}
	for k, v := range params {
		if k != "_meta" {
			all[k] = v
		}
	}
	return send(s, method, all, header)
}

func send(s *server.Server, method string, params object, header map[string]string) reply {
	message, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", strings.NewReader(string(message)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	out := reply{Status: w.Code, Body: strings.TrimSpace(w.Body.String())}
	if strings.HasPrefix(out.Body, "{") {
		if err := json.Unmarshal([]byte(out.Body), &out); err != nil {
			panic(err)
		}
	}
	return out
}

// accepted is a step's answer by a user who filled in a form.
func accepted(stepID string, content object) object {
	return object{"stepId": stepID, "result": object{"action": "accept", "content": content}}
}
