package main

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
)

// work is the proposal's tool as one protocol speaks it: three turns.
type work struct {
	name string
	// headers of each turn's request.
	headers map[string]string
	// request returns the body of a turn, with the token of the turn before.
	request func(turn int, id int, token []byte) []byte
	// wanted is what the response of a turn must contain, and suspended that of every
	// turn but the last. tokenKey is the member of its result with the token.
	wanted    [turns]string
	suspended string
	tokenKey  string
}

const turns = 3

const (
	elicitation = `{"action":"accept","content":{"target":"production"}}`
	completion  = `{"role":"assistant","content":{"type":"text","text":"Yes, all systems are green."},"model":"client-side-llm-v2"}`
	arguments   = `"name":"complex_tool","arguments":{"initial_arg":"value"}`
	meta        = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`
	finished    = `Deployment to production initiated successfully based on confirmation.`
)

func message(id int, method, params string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + strconv.Itoa(id) + `,"method":"` + method + `","params":{` + params + `}}`)
}

// sagaWork speaks tools/callSaga and tools/resumeSaga.
var sagaWork = work{
	name:     "saga",
	wanted:   [turns]string{`"stepId":"step-elicitation-A"`, `"stepId":"step-sampling-B"`, finished},
	tokenKey: "sagaToken", suspended: `"state":"suspended"`,
	request: func(turn, id int, token []byte) []byte {
		answer := func(step, result string) string { return `{"stepId":"` + step + `","result":` + result + `}` }
		steps := answer("step-elicitation-A", elicitation)
		switch turn {
		case 0:
			return message(id, "tools/callSaga", arguments)
		case 2:
			steps += "," + answer("step-sampling-B", completion)
		}
		return message(id, "tools/resumeSaga", `"sagaToken":`+string(token)+`,"completedSteps":[`+steps+`]`)
	},
}

// mrtrWork speaks the multi round-trip requests of MCP 2026-07-28.
var mrtrWork = work{
	name: "mrtr",
	headers: map[string]string{
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "complex_tool",
		"Accept": "application/json, text/event-stream",
	},
	wanted:   [turns]string{`"step-elicitation-A":{`, `"step-sampling-B":{`, finished},
	tokenKey: "requestState", suspended: `"resultType":"input_required"`,
	request: func(turn, id int, token []byte) []byte {
		if turn == 0 {
			return message(id, "tools/call", arguments+","+meta)
		}
		answers := `"step-elicitation-A":` + elicitation
		if turn == 2 {
			answers = `"step-sampling-B":` + completion
		}
		return message(id, "tools/call", arguments+","+meta+`,"inputResponses":{`+answers+`},"requestState":`+string(token))
	},
}

// check verifies a response and returns its token.
func (w *work) check(turn, id int, body []byte) (token []byte, err error) {
	wrong := func(what string) error {
		return fmt.Errorf("turn %d of %s was answered wrongly (%s): %.300s", turn+1, w.name, what, body)
	}
	response := jsontest.Parse(body)
	result := response.Get("result")
	switch {
	case !jsontest.Valid(body):
		return nil, wrong("it is not JSON")
	case response.Get("jsonrpc").String() != "2.0" || response.Get("id").Raw != strconv.Itoa(id):
		return nil, wrong("it is not the response to the request")
	case !result.IsObject() || response.Get("error").Exists() || result.Get("isError").Bool():
		return nil, wrong("it is an error")
	case !bytes.Contains(body, []byte(w.wanted[turn])):
		return nil, wrong("it lacks " + w.wanted[turn])
	case bytes.Contains(body, []byte(w.suspended)) == (turn == turns-1):
		return nil, wrong("it ends too early or too late")
	}
	// The raw JSON string, with its quotes and escapes, to be sent back as it is.
	raw := result.Get(w.tokenKey).Raw
	if last := turn == turns-1; last != (raw == "") {
		return nil, wrong("a token is missing, or there is one in the end")
	}
	return []byte(raw), nil
}
