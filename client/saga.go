package client

import stdjson "encoding/json"

// sagaDialect is the saga proposal: tools/callSaga starts a call, and
// tools/resumeSaga carries the token and every answer so far.
type sagaDialect struct{}

func (sagaDialect) name() string       { return "saga" }
func (sagaDialect) rules() answerRules { return answerRules{all: true, errors: true} }

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

func (sagaDialect) next(p *Position, _ *Handlers) request {
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

// list returns a request of MCP without a handshake, which servers of this module take.
func (sagaDialect) list(method, cursor string) request {
	return request{method: method, params: listParams{Cursor: cursor}, harmless: true}
}

func (sagaDialect) parse(raw stdjson.RawMessage, limits Limits) (turn, error) {
	wire := struct {
		State     string        `json:"state"`
		SagaToken string        `json:"sagaToken"`
		Steps     bounded[Step] `json:"steps"`
	}{Steps: bounded[Step]{max: limits.Steps, what: "steps at once"}}
	if err := read(raw, &wire, "the server's result"); err != nil {
		return turn{}, err
	}
	if wire.State != "suspended" {
		return turn{result: raw}, nil
	}
	if wire.SagaToken == "" {
		return turn{}, malformed("the server suspended the call without a token")
	}
	for _, step := range wire.Steps.items {
		if step.StepID == "" {
			return turn{}, malformed("the server sent a step of type %q without an id", step.Type)
		}
	}
	return turn{token: wire.SagaToken, steps: wire.Steps.items}, nil
}
