// Command pathcount makes one request, or one call, of a server and writes which of this module's
// code that ran, for the test beside it to count. It must be built with -cover
// -covermode=atomic; the counters go to the directory that is its second argument.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

const elicited = `{"action":"accept","content":{"target":"production"}}`

// tools are one that asks, and one that holds a room as well.
func tools() []saga.Definition {
	form := &steps.Form[struct {
		Target string `json:"target"`
	}]{ID: "target", Message: "Which target?"}
	hold := &saga.Effect[string, string]{
		Name: "hold",
		Do:   func(_ context.Context, _ saga.Key, in string) (string, error) { return in, nil },
		Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
	}
	asks := func(name string, effects ...saga.Declared) saga.Definition {
		return saga.Flow[struct{}, string]{
			Info: saga.Info{Name: name, Asks: []steps.Question{form}, Effects: effects, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
			Run: func(r *saga.Run, _ struct{}) (string, error) {
				answer, err := saga.Ask(r, form)
				if err != nil || len(effects) == 0 {
					return answer.Target, err
				}
				return saga.Do(r, hold, answer.Target)
			},
		}
	}
	return []saga.Definition{complextool.Tool, asks("ask"), asks("hold", hold)}
}

func main() {
	keys, err := codec.NewKeyset()
	check(err)
	what, dir := os.Args[1], os.Args[2]
	o := server.Options{Keys: keys, Tools: tools(), Logger: slog.New(slog.DiscardHandler)}
	if strings.HasSuffix(what, " with a ledger") {
		o.Ledger, err = sqlite.Open(context.Background(), filepath.Join(os.Args[3], "ledger.db"))
		check(err)
	}
	s, err := server.New(o)
	check(err)
	web := httptest.NewServer(s.Handler())
	time.Sleep(500 * time.Millisecond) // it has begun to look for work
	c := &client{url: web.URL + server.Endpoint, model: "Yes, it is safe."}
	call := func(tool string) {
		hello := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{}},"clientInfo":{"name":"c","version":"1"}}}`)
		c.session = hello.Header.Get("Mcp-Session-Id")
		c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		count(dir, func() {
			c.read(c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{}}}`), `"id":1,"result"`)
		})
	}
	switch what {
	case "resume":
		c.resume(dir, "complex_tool", "step-elicitation-A", "suspended")
	case "resume with a ledger":
		c.resume(dir, "hold", "target", `"text":"production"`)
	case "handshake":
		call("complex_tool")
	case "refused":
		c.model = "No."
		call("complex_tool")
	case "call with a ledger":
		c.thinks = 1500 * time.Millisecond
		call("ask")
	case "effect with a ledger":
		c.thinks = 1500 * time.Millisecond
		call("hold")
	case "task with a ledger":
		count(dir, c.task)
	default:
		log.Fatal("there is no such path")
	}
}

// resume counts the second turn of a saga.
func (c *client) resume(dir, tool, step, state string) {
	first := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"` + tool + `","arguments":{}}}`)
	var reply struct{ Result struct{ SagaToken string } }
	check(json.NewDecoder(first.Body).Decode(&reply))
	request := `{"jsonrpc":"2.0","id":2,"method":"tools/resumeSaga","params":{"sagaToken":"` + reply.Result.SagaToken +
		`","completedSteps":[{"stepId":"` + step + `","result":` + elicited + `}]}}`
	count(dir, func() { c.read(c.post(request), state) })
}

// task has a task of MCP 2026-07-28 come to its end.
func (c *client) task() {
	request := func(method, name, params string) (reply struct {
		Result struct {
			TaskID, Status string
			InputRequests  map[string]json.RawMessage
		}
	}) {
		c.method, c.name = method, name
		resp := c.post(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`)
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		check(err)
		if err := json.Unmarshal(raw, &reply); err != nil {
			log.Fatalf("%s: %v: %s", method, err, raw)
		}
		return reply
	}
	id := request("tools/call", "hold", `"name":"hold","arguments":{}`).Result.TaskID
	task := `"taskId":"` + id + `"`
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		switch got := request("tasks/get", id, task); got.Result.Status {
		case "input_required":
			for key := range got.Result.InputRequests {
				request("tasks/update", id, task+`,"inputResponses":{"`+key+`":`+elicited+`}`)
			}
		case "completed":
			return
		}
	}
	log.Fatalf("the task %q has not ended", id)
}

// count writes the counters of what f ran, with what ended a moment after it.
func count(dir string, f func()) {
	check(coverage.ClearCounters())
	f()
	time.Sleep(100 * time.Millisecond)
	check(coverage.WriteMetaDir(dir))
	check(coverage.WriteCountersDir(dir))
	os.Exit(0)
}

type client struct {
	url, session, model string
	method, name        string        // of a request of MCP 2026-07-28
	thinks              time.Duration // how long it takes to answer
}

func (c *client) post(message string) *http.Response {
	r, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(message))
	check(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.method != "" {
		r.Header.Set("MCP-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", c.method)
		r.Header.Set("Mcp-Name", c.name)
	}
	resp, err := http.DefaultClient.Do(r)
	check(err)
	return resp
}

// read reads messages, and answers the questions among them, until one has the text.
func (c *client) read(resp *http.Response, text string) {
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if bytes.Contains(lines.Bytes(), []byte(text)) {
			return
		}
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		var question struct {
			ID     json.RawMessage
			Method string
		}
		if !ok || json.Unmarshal(data, &question) != nil {
			continue
		}
		time.Sleep(c.thinks)
		answer := elicited
		if question.Method == "sampling/createMessage" {
			answer = fmt.Sprintf(`{"role":"assistant","model":"m","content":{"type":"text","text":%q}}`, c.model)
		}
		c.post(`{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":` + answer + `}`)
	}
	check(fmt.Errorf("no response with %s came: %w", text, lines.Err()))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
