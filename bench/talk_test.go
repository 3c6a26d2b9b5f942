package bench

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// dialect is how a protocol words sagas. The results of all turns but the last hold suspended.
type dialect struct{ name, suspended string }

var (
	// proposal has tools/callSaga and tools/resumeSaga.
	proposal = &dialect{"saga", `"state":"suspended"`}
	// mrtr has the multi round-trip requests of MCP 2026-07-28.
	mrtr = &dialect{"mrtr", `"resultType":"input_required"`}
)

const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`

// turns is how many turns a saga of complex_tool takes.
const turns = 3

// wanted is what the response of each turn of complex_tool holds, and given are the answers to its
// two questions.
var (
	wanted = [turns]string{"step-elicitation-A", "step-sampling-B", `Deployment to production initiated successfully based on confirmation.`}
	given  = map[string]string{
		wanted[0]: `{"action":"accept","content":{"target":"production"}}`,
		wanted[1]: `{"role":"assistant","content":{"type":"text","text":"Yes, all systems are green."},"model":"client-side-llm-v2"}`,
	}
)

// talk is a saga of complex_tool as its client sees it.
type talk struct {
	*dialect
	header   map[string]string
	token    string // as JSON, with its quotes and escapes
	asked    string // the id of the open question
	answered []string
}

// exchange sends a request and returns the body of its response.
type exchange func(header map[string]string, request []byte) []byte

// deploy takes all turns of a saga and returns the length of its longest token.
func deploy(d *dialect, send exchange) (longest int) {
	t := &talk{dialect: d, header: map[string]string{"Content-Type": "application/json"}}
	if d == mrtr {
		maps.Copy(t.header, map[string]string{
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "complex_tool", "Accept": "application/json, text/event-stream",
		})
	}
	for turn := range turns {
		t.take(turn, send(t.header, t.request(turn)))
		longest = max(longest, len(t.token)-len(`""`))
	}
	return longest
}

func (t *talk) request(id int) []byte {
	method, params, answer := "tools/callSaga", `"name":"complex_tool","arguments":{"initial_arg":"value"}`, given[t.asked]
	if t.dialect == mrtr {
		method, params = "tools/call", params+meta
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

// take checks the response of a turn, and takes from it what the next request needs.
func (t *talk) take(turn int, body []byte) {
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
	for id := range r.Result.InputRequests {
		t.asked = id
	}
	last := turn == turns-1
	if err != nil || r.JSONRPC != "2.0" || string(r.ID) != strconv.Itoa(turn) || r.Error != nil || r.Result.IsError ||
		!bytes.Contains(body, []byte(wanted[turn])) || !last && !strings.Contains(t.asked, wanted[turn]) ||
		bytes.Contains(body, []byte(t.suspended)) == last || (t.token == "") != last {
		fail("a wrong answer in %s to request %d, which should hold %s (last: %v): %.300s", t.name, turn, wanted[turn], last, body)
	}
}

// whole is the load of whole sagas.
func whole(d *dialect) operation {
	return operation{turns, func(client *fasthttp.HostClient) int { return deploy(d, over(client)) }}
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
