package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// dialect is how a protocol words sagas. Suspended is what the result of every turn but the
// last holds.
type dialect struct{ name, suspended string }

var (
	// proposal speaks tools/callSaga and tools/resumeSaga.
	proposal = &dialect{"saga", `"state":"suspended"`}
	// mrtr speaks the multi round-trip requests of MCP 2026-07-28.
	mrtr = &dialect{"mrtr", `"resultType":"input_required"`}
)

const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`

// turns are those of the proposal's tool, which most measurements take.
const turns = 3

// wanted is what the response of each turn of the proposal's tool holds, and given
// are the answers to its two questions. Other tools ask to go on.
var (
	wanted = [turns]string{"step-elicitation-A", "step-sampling-B", `Deployment to production initiated successfully based on confirmation.`}
	given  = map[string]string{
		wanted[0]: `{"action":"accept","content":{"target":"production"}}`,
		wanted[1]: `{"role":"assistant","content":{"type":"text","text":"Yes, all systems are green."},"model":"client-side-llm-v2"}`,
		"go":      `{"action":"accept","content":{"go":true}}`,
	}
)

// talk is a saga as its client sees it.
type talk struct {
	*dialect
	params   string
	header   map[string]string
	token    string // as JSON, with its quotes and escapes
	asked    string // the id of the question that waits
	answered []string
}

func newTalk(d *dialect, tool, arguments string) *talk {
	t := &talk{dialect: d, params: `"name":"` + tool + `","arguments":` + arguments, header: map[string]string{"Content-Type": "application/json"}}
	if d == mrtr {
		t.params += meta
		t.header["MCP-Protocol-Version"], t.header["Mcp-Method"], t.header["Mcp-Name"] = "2026-07-28", "tools/call", tool
		t.header["Accept"] = "application/json, text/event-stream"
	}
	return t
}

// deploy is a saga of the proposal's tool.
func deploy(d *dialect) *talk { return newTalk(d, "complex_tool", `{"initial_arg":"value"}`) }

func (t *talk) request(id int) []byte {
	method, params, answer := "tools/callSaga", t.params, given[strings.TrimRight(t.asked, "~#0123456789")]
	if t.dialect == mrtr {
		method = "tools/call"
	}
	switch {
	case t.token == "":
	case t.dialect == mrtr:
		params += `,"inputResponses":{"` + t.asked + `":` + answer + `},"requestState":` + t.token
	default:
		t.answered = append(t.answered, `{"stepId":"`+t.asked+`","result":`+answer+`}`)
		method, params = "tools/resumeSaga", `"sagaToken":`+t.token+`,"completedSteps":[`+strings.Join(t.answered, ",")+`]`
	}
	return []byte(`{"jsonrpc":"2.0","id":` + strconv.Itoa(id) + `,"method":"` + method + `","params":{` + params + `}}`)
}

// take verifies the response, and takes from it what the next request needs.
func (t *talk) take(id int, body []byte, wanted string, last bool) {
	var r struct {
		JSONRPC   string
		ID, Error json.RawMessage
		Result    struct { // of either dialect
			IsError                 bool
			SagaToken, RequestState json.RawMessage
			Steps                   []struct{ StepID string }
			InputRequests           map[string]json.RawMessage
		}
	}
	err := json.Unmarshal(body, &r)
	t.token, t.asked = string(r.Result.SagaToken)+string(r.Result.RequestState), ""
	for _, step := range r.Result.Steps {
		t.asked = step.StepID
	}
	for key := range r.Result.InputRequests {
		t.asked = key
	}
	if err != nil || r.JSONRPC != "2.0" || string(r.ID) != strconv.Itoa(id) || r.Error != nil || r.Result.IsError ||
		!bytes.Contains(body, []byte(wanted)) || !last && !strings.Contains(t.asked, wanted) ||
		bytes.Contains(body, []byte(t.suspended)) == last || (t.token == "") != last {
		fail("a wrong answer in %s to request %d, which should hold %s (last: %v): %.300s", t.name, id, wanted, last, body)
	}
}

func (t *talk) tokenLength() int { return max(len(t.token)-len(`""`), 0) }

// exchange sends a request and returns the body of its response.
type exchange func(header map[string]string, request []byte) []byte

// all takes all turns of the saga, whose responses hold what is wanted. It returns the length of the
// longest token.
func (t *talk) all(send exchange, wanted ...string) (longest int) {
	for turn, text := range wanted {
		t.take(turn+1, send(t.header, t.request(turn+1)), text, turn == len(wanted)-1)
		longest = max(longest, t.tokenLength())
	}
	return longest
}

// over sends requests to a server. Any status but 200 is an error.
func over(client *fasthttp.HostClient) exchange {
	return func(header map[string]string, request []byte) []byte {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		defer fasthttp.ReleaseResponse(resp)
		req.SetRequestURI("http://localhost/mcp")
		req.Header.SetMethod(http.MethodPost)
		for k, v := range header {
			req.Header.Set(k, v)
		}
		req.SetBody(request)
		check(client.Do(req, resp))
		if resp.StatusCode() != http.StatusOK {
			fail("a wrong answer: status %d: %.300s", resp.StatusCode(), resp.Body())
		}
		return bytes.Clone(resp.Body())
	}
}

// within hands requests to a handler, without a network.
func within(h http.Handler) exchange {
	return func(header map[string]string, request []byte) []byte {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httpRequest(header, request))
		return rec.Body.Bytes()
	}
}

func httpRequest(header map[string]string, body []byte) *http.Request {
	h := make(http.Header)
	for k, v := range header {
		h.Set(k, v)
	}
	return &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: "/mcp"}, Host: "localhost", Header: h, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// whole is a whole saga of the proposal's tool.
func whole(d *dialect) operation {
	return operation{turns, func(client *fasthttp.HostClient) int { return deploy(d).all(over(client), wanted[:]...) }}
}

// reach brings a saga of the tools rounds and rounds_flow to the turn that answers
// its n-th question, and returns that turn, which can be taken again and again: a
// token without a ledger may be used any number of times.
func reach(server *child, d *dialect, tool string, rounds, size, n int) operation {
	client := clientOf(server, 1)
	defer client.CloseIdleConnections()
	t := newTalk(d, tool, fmt.Sprintf(`{"rounds":%d,"size":%d}`, rounds, size))
	for range n {
		t.take(1, over(client)(t.header, t.request(1)), "go", false)
	}
	body := t.request(1)
	return operation{1, func(client *fasthttp.HostClient) int {
		same := *t
		same.take(1, over(client)(t.header, body), "", false)
		return same.tokenLength()
	}}
}
