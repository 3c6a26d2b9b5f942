package client

import (
	stdjson "encoding/json"

	"github.com/go-json-experiment/json"
)

// sagaDialect is the saga proposal: tools/callSaga starts a call, and
// tools/resumeSaga carries the token and every answer so far.
type sagaDialect struct{}

func (sagaDialect) name() string { return "saga" }

type callParams struct {
	Name      string             `json:"name"`
	Arguments stdjson.RawMessage `json:"arguments,omitempty"`
}

type resumeParams struct {
	SagaToken      string   `json:"sagaToken"`
	CompletedSteps []Answer `json:"completedSteps"`
}

type cancelParams struct {
	SagaToken      string   `json:"sagaToken"`
	CompletedSteps []Answer `json:"completedSteps,omitempty"`
}

func (sagaDialect) next(p *Position) request {
	if p.Token == "" {
		return request{method: "tools/callSaga", params: callParams{Name: p.Tool, Arguments: p.Arguments}}
	}
	answers := p.Answers
	if answers == nil {
		answers = []Answer{} // the proposal wants the array even when it is empty
	}
	return request{
		method:   "tools/resumeSaga",
		params:   resumeParams{SagaToken: p.Token, CompletedSteps: answers},
		harmless: true,
	}
}

// cancel makes use of an extension of the proposal by mcpsaga's server: the token
// and the answers so far, so that a turn whose response was lost is undone too.
func (sagaDialect) cancel(p *Position) (request, bool) {
	answers := p.Answers
	if len(p.Pending()) > 0 {
		answers = nil // the turn was not taken, and must not be now
	}
	return request{method: "tools/cancelSaga", params: cancelParams{SagaToken: p.Token, CompletedSteps: answers}, harmless: true}, true
}

func (sagaDialect) parse(raw stdjson.RawMessage) (turn, error) {
	var wire struct {
		State     string `json:"state"`
		SagaToken string `json:"sagaToken"`
		Steps     []Step `json:"steps"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return turn{}, &ProtocolError{Reason: "the server's result is malformed", Err: err}
	}
	if wire.State != "suspended" {
		result, err := parseResult(raw)
		return turn{result: result}, err
	}
	if wire.SagaToken == "" {
		return turn{}, malformed("the server suspended the call without a token")
	}
	for _, step := range wire.Steps {
		if step.StepID == "" {
			return turn{}, malformed("the server sent a step of type %q without an id", step.Type)
		}
	}
	return turn{token: wire.SagaToken, steps: wire.Steps}, nil
}
