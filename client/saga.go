package client

import (
	"encoding/json"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// sagaDialect is the saga proposal: tools/callSaga starts a call, and
// tools/resumeSaga carries the token and every answer so far.
type sagaDialect struct{}

func (sagaDialect) next(p *Position, h *Handlers) request {
	var m meta
	var r request
	m.ProgressToken, r.notify = h.progress()
	if p.Token != "" {
		answers := append([]Answer{}, p.Answers...) // the proposal wants the array even when it is empty
		r.method, r.params, r.harmless = "tools/resumeSaga", params{SagaToken: p.Token, CompletedSteps: answers, Meta: m}, true
		return r
	}
	m.Key = p.Key
	if p.Key != "" { // it is empty in a position of an earlier version
		r.keyed = p.Tool
	}
	r.method, r.params = "tools/callSaga", params{Name: p.Tool, Arguments: p.Arguments, Meta: m}
	return r
}

// cancel makes use of an extension of the proposal by mcpsaga's server: the token
// and the answers so far, so that a turn whose response was lost is undone too.
func (sagaDialect) cancel(p *Position) request {
	answers := p.Answers
	if len(p.Pending()) > 0 {
		answers = nil // the turn was not taken, and must not be now
	}
	return request{method: "tools/cancelSaga", params: params{SagaToken: p.Token, CompletedSteps: answers}, harmless: true}
}

// list returns a request of MCP without a handshake, which servers of this module take.
func (sagaDialect) list(method, cursor string) request {
	return request{method: method, params: params{Cursor: cursor}, harmless: true}
}

func (sagaDialect) parse(raw json.RawMessage, limits Limits) (turn, error) {
	wire := struct {
		State     string                   `json:"state"`
		SagaToken string                   `json:"sagaToken"`
		Steps     bounded[Step]            `json:"steps"`
		Content   bounded[json.RawMessage] `json:"content"`
		Meta      json.RawMessage          `json:"_meta"`
	}{Steps: bounded[Step]{max: limits.Steps, what: "steps at once"}, Content: limits.blocks()}
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
	return turn{token: wire.SagaToken, steps: wire.Steps.items, parts: wire.Content.items, wait: waitOf(wire.Meta)}, nil
}

// waitOf returns when to come back to a suspension with that _meta; 0 if it does not say.
func waitOf(meta json.RawMessage) time.Duration {
	var ms float64
	if json.Unmarshal(jsonview.Get(meta, "io.github.mcpsaga/retryAfterMs"), &ms) != nil {
		return 0
	}
	return milliseconds(ms)
}

// milliseconds returns a duration that JSON gives as a number, which may be any.
func milliseconds(n float64) time.Duration {
	const most = float64(1<<62) / float64(time.Millisecond)
	return time.Duration(min(max(n, 0), most) * float64(time.Millisecond))
}
