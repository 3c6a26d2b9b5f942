package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// dialect is how a protocol words sagas.
type dialect struct {
	name string
	// suspended is what the result of every turn but the last holds.
	suspended string
}

var (
	// proposal speaks tools/callSaga and tools/resumeSaga.
	proposal = &dialect{name: "saga", suspended: `"state":"suspended"`}
	// mrtr speaks the multi round-trip requests of MCP 2026-07-28.
	mrtr = &dialect{name: "mrtr", suspended: `"resultType":"input_required"`}
)

// turns are those of the proposal's tool, which most measurements take.
const turns = 3

const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`

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
		t.header = map[string]string{
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
			"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		}
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
func (t *talk) take(id int, body []byte, wanted string, last bool) error {
	var response struct {
		JSONRPC string
		ID      json.RawMessage
		Error   json.RawMessage
		Result  *struct { // of either dialect
			IsError                 bool
			SagaToken, RequestState json.RawMessage
			Steps                   []struct{ StepID string }
			InputRequests           map[string]json.RawMessage
		}
	}
	err := json.Unmarshal(body, &response)
	r, what := response.Result, ""
	switch {
	case err != nil:
		what = err.Error()
	case response.JSONRPC != "2.0" || string(response.ID) != strconv.Itoa(id):
		what = "it is not the response to the request"
	case r == nil || response.Error != nil || r.IsError:
		what = "it is an error"
	default:
		t.token, t.asked = string(r.SagaToken)+string(r.RequestState), ""
		for _, step := range r.Steps {
			t.asked = step.StepID
		}
		for key := range r.InputRequests {
			t.asked = key
		}
		switch {
		case !bytes.Contains(body, []byte(wanted)) || !last && !strings.Contains(t.asked, wanted):
			what = "it lacks " + wanted
		case bytes.Contains(body, []byte(t.suspended)) == last:
			what = "it ends too early or too late"
		case last != (t.token == ""):
			what = "a token is missing, or there is one in the end"
		default:
			return nil
		}
	}
	return fmt.Errorf("a wrong answer in %s, which should hold %s (%s): %.300s", t.name, wanted, what, body)
}
