package turns

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// RouteError is why a request is refused that would have its client answer what clients may not.
type RouteError struct{ Question string }

// Error implements error.
func (e *RouteError) Error() string {
	return fmt.Sprintf("question %q may not be answered by the client, and there is no other way here to ask it, so nothing was done: call the tool by tools/call, at a server that has the ways that the question is for", e.Question)
}

// MayAsk fails with a [*RouteError] if a program may ask what the client of a request may not answer. It is refused before
// it begins: later there would be something to undo.
func (r *Runner) MayAsk(q *Request, p *engine.Program) error {
	if q.Elsewhere || r.ClientMay == nil || p == nil {
		return nil
	}
	for _, asks := range p.Asks {
		if id := asks.StepID(); !r.ClientMay(p.Routing(id)) {
			return &RouteError{id}
		}
	}
	return nil
}

// MayAnswer fails with a [*RouteError] if there is an answer that no client may give.
func (r *Runner) MayAnswer(p *engine.Program, answers []steps.Answer) error {
	if r.ClientMay == nil || p == nil {
		return nil
	}
	for _, a := range answers {
		if !r.ClientMay(p.Routing(a.StepID)) {
			return &RouteError{a.StepID}
		}
	}
	return nil
}
