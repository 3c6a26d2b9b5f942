package saga

import (
	"encoding/json"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Turn is what a step function works with. It is valid during the function's
// call only.
//
// A step function ends by returning what one of the methods Ask, Goto, Text,
// Structured and Finish returns, or an error.
type Turn[Args, State any] struct {
	// Args are the tool's arguments, checked against its input schema.
	Args Args
	// State is the saga's own data. What a step function leaves in it is there
	// in the next one, in whatever process that runs.
	State State

	turn *turnContext
}

// Next is what a step function returns: how the turn goes on.
type Next interface{ endsFunc() }

type (
	// asked ends the turn with questions.
	asked struct {
		next  string
		steps []steps.Step
	}
	// gone goes on in another step function.
	gone struct{ step string }
	// finished ends the saga.
	finished struct{ outcome Outcome }
)

func (*asked) endsFunc()   {}
func (gone) endsFunc()     {}
func (finished) endsFunc() {}

// Ask suspends the saga until the client has answered all the given questions.
// Then the step function named next runs; it reads the answers with the
// questions' own Answer methods. A client that lacks what a question needs gets
// its alternative, if there is one ([steps.Otherwise]). Every question must be listed in the tool's
// Asks. A question asked in a later round again is a new question to the client.
func (t *Turn[Args, State]) Ask(next string, questions ...steps.Ask) (Next, error) {
	if !t.turn.tool.program.has(next) {
		return nil, fmt.Errorf("Ask: there is no step function %q to get the answers; the tool's Steps must have it", next)
	}
	if len(questions) == 0 {
		return nil, fmt.Errorf("Ask: no question was given; use Goto(%q) to go on without asking", next)
	}
	resolved, err := t.turn.resolve(questions, nil)
	if err != nil {
		return nil, err
	}
	return &asked{next: next, steps: resolved}, nil
}

// resolve returns the steps that put the questions to this client. Of alternatives
// it takes the one that answered returns, if it returns one.
func (tc *turnContext) resolve(questions []steps.Ask, answered func(*steps.Step) *steps.Step) ([]steps.Step, error) {
	if len(questions) == 0 {
		return nil, fmt.Errorf("Ask: no question was given")
	}
	resolved := make([]steps.Step, len(questions))
	for i, q := range questions {
		if q == nil {
			return nil, fmt.Errorf("Ask: question %d is nil", i)
		}
		s, err := q.Step()
		if err != nil {
			return nil, fmt.Errorf("Ask: %w", err)
		}
		var known *steps.Step
		if answered != nil {
			asked := s // on the heap, unlike s
			known = answered(&asked)
		}
		if known != nil {
			s = *known
		}
		for wanted := s; known == nil && !tc.client.Has(s.Needs); s = *s.Otherwise {
			if s.Otherwise == nil {
				return nil, &UnsupportedError{Tool: tc.tool.Name, StepID: wanted.ID, Needs: wanted.Needs}
			}
		}
		if tc.tool.question(s.ID) == nil {
			return nil, fmt.Errorf("Ask: question %q is not declared; add it to the tool's Asks", s.ID)
		}
		if !tc.tool.isDeclared(&s) {
			return nil, fmt.Errorf("Ask: question %q is another one than the tool's Asks have under this id; ask the one that is declared, as it is or by its With method", s.ID)
		}
		for _, other := range resolved[:i] {
			if other.ID == s.ID {
				return nil, fmt.Errorf("Ask: question %q is asked twice at once; use Nth to tell instances apart", s.ID)
			}
		}
		resolved[i] = s
	}
	return resolved, nil
}

// Goto goes on with another step function in the same turn. Answers remain
// readable there.
func (t *Turn[Args, State]) Goto(step string) (Next, error) {
	if !t.turn.tool.program.has(step) {
		return nil, fmt.Errorf("Goto: there is no step function %q; the tool's Steps must have it", step)
	}
	return gone{step}, nil
}

// Pause ends the turn without a question: the client comes back at once, to any
// server, and next goes on. It is for work that takes longer than one request should,
// cut into turns of which none is lost.
//
// Clients do not pause for ever: the official Go SDK's gives up at the third pause
// of a call, others after eight to ten turns of any kind. Clients of MCP before
// 2026-07-28 wait for all turns within one request.
func (t *Turn[Args, State]) Pause(next string) (Next, error) {
	if !t.turn.tool.program.has(next) {
		return nil, fmt.Errorf("Pause: there is no step function %q; the tool's Steps must have it", next)
	}
	return &asked{next: next}, nil
}

// Finish ends the saga with a result.
func (t *Turn[Args, State]) Finish(r *Result) (Next, error) {
	if r == nil {
		return nil, fmt.Errorf("Finish: the result is nil")
	}
	return finished{Outcome{Result: r}}, nil
}

// Text ends the saga with a result of one block of text.
func (t *Turn[Args, State]) Text(format string, args ...any) (Next, error) {
	return finished{Outcome{Result: TextResult(format, args...)}}, nil
}

// Structured ends the saga with a structured result: v as JSON, checked
// against the tool's output schema. The same JSON is given as text for clients
// that do not read structured results (MCP, server/tools, structured content).
func (t *Turn[Args, State]) Structured(v any) (Next, error) {
	raw, err := jsonv2.Marshal(v, jsonOptions)
	if err != nil {
		return nil, fmt.Errorf("Structured: %w", err)
	}
	return finished{Outcome{Result: structuredResult(raw)}}, nil
}

func structuredResult(raw []byte) *Result {
	return &Result{
		Content:           content.Blocks{content.Text{Text: string(raw)}},
		StructuredContent: json.RawMessage(raw),
	}
}

// Messages ends a prompt.
func (t *Turn[Args, State]) Messages(m ...PromptMessage) (Next, error) {
	return finished{Outcome{Messages: &Messages{Messages: m}}}, nil
}

// Contents ends a resource.
func (t *Turn[Args, State]) Contents(c ...Contents) (Next, error) {
	return finished{Outcome{Contents: c}}, nil
}

// Progress tells the client how far this turn has come, if it wants to know:
// done out of total, which is 0 if it is unknown. done must grow.
func (t *Turn[Args, State]) Progress(done, total float64, message string) {
	t.turn.progress(done, total, message)
}

func (tc *turnContext) progress(done, total float64, message string) {
	if tc.notify != nil {
		tc.notify.Progress(Progress{done, total, message})
	}
}

func (tc *turnContext) report(level LogLevel, data any) {
	if tc.notify != nil {
		tc.notify.Log(Log{level, tc.tool.Name, data})
	}
}

// Log sends the client a log message, if it wants messages of that level. data
// is any value that encodes to JSON. It must not hold secrets.
func (t *Turn[Args, State]) Log(level LogLevel, data any) {
	t.turn.report(level, data)
}

// Disconnect gives up the client's connection while the turn goes on, and has the
// client come back for the result after retry: a turn that takes long then holds
// no connection open. Where the client's protocol does not know this (SEP-1699, MCP
// 2025-11-25 over HTTP), nothing happens.
func (t *Turn[Args, State]) Disconnect(retry time.Duration) {
	t.turn.disconnect(retry)
}

func (tc *turnContext) disconnect(retry time.Duration) {
	if d, ok := tc.notify.(Disconnecter); ok {
		d.Disconnect(retry)
	}
}

// ID identifies the saga; it is the same in all its turns. Give it to systems
// that accept an idempotency key, with a name for what is done.
func (t *Turn[Args, State]) ID() ID { return t.turn.id }

// Now is the time of this turn.
func (t *Turn[Args, State]) Now() time.Time { return t.turn.now }

// Can reports whether the client can do all of the given features.
func (t *Turn[Args, State]) Can(f steps.Features) bool { return t.turn.client.Has(f) }

func (t *Turn[Args, State]) performer() *turnContext { return t.turn }

// StepAnswer implements [steps.Answers]. Read answers with the question's
// Answer method instead; it knows the type.
func (t *Turn[Args, State]) StepAnswer(id string) (steps.Answer, bool) {
	for _, a := range t.turn.answers {
		if a.StepID == id {
			return a.Answer, true
		}
	}
	return steps.Answer{}, false
}
