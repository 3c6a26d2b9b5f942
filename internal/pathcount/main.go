// Command pathcount makes one request of a server and writes which of this module's
// code it ran, for the test beside it to count. It must be built with -cover
// -covermode=atomic; the counters go to the directory that is its second argument.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/coverage"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

const elicited = `{"action":"accept","content":{"target":"production"}}`

func main() {
	keys, err := codec.NewKeyset()
	check(err)
	s, err := server.New(server.Options{Keys: keys, Tools: []saga.Definition{complextool.Tool}, Logger: slog.New(slog.DiscardHandler)})
	check(err)
	web := httptest.NewServer(s.Handler())
	c := &client{url: web.URL + server.Endpoint, model: "Yes, it is safe."}
	switch what := os.Args[1]; what {
	case "resume":
		first := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool","arguments":{"initial_arg":"value"}}}`)
		var reply struct{ Result struct{ SagaToken string } }
		check(json.NewDecoder(first.Body).Decode(&reply))
		request := `{"jsonrpc":"2.0","id":2,"method":"tools/resumeSaga","params":{"sagaToken":"` + reply.Result.SagaToken +
			`","completedSteps":[{"stepId":"step-elicitation-A","result":` + elicited + `}]}}`
		count(os.Args[2], func() { c.read(c.post(request), "suspended") })
	case "handshake", "refused":
		if what == "refused" {
			c.model = "No."
		}
		hello := c.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{}},"clientInfo":{"name":"c","version":"1"}}}`)
		c.session = hello.Header.Get("Mcp-Session-Id")
		c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		count(os.Args[2], func() {
			c.read(c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"complex_tool","arguments":{"initial_arg":"value"}}}`), `"id":1,"result"`)
		})
	default:
		log.Fatal("the first argument is resume, handshake or refused")
	}
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

type client struct{ url, session, model string }

func (c *client) post(message string) *http.Response {
	r, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(message))
	check(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
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
