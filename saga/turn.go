package saga

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Turn is what a step function works with, and its context, which ends when the client
// goes away or the turn takes too long, and that of a task when the task is cancelled. It is
// valid during the function's call only, and [Do] and [DoAll] in the goroutine that runs it: in one of
// your own they are refused, and the turn fails. The context, Progress, Log and answers are for all.
//
// A step function ends by returning what one of the methods Ask, Goto, Pause, Textf,
// Structured and Finish, or Yield, Sleep and Until returns, or an error; that of a [Prompt] ends with Messages,
// that of a [Resource] with Contents.
type Turn[Args, State any] struct {
	working
	// Args are the tool's arguments, checked against its input schema.
	Args Args
	// State is the saga's own data. What a step function leaves in it is there
	// in the next one, in whatever process that runs.
	State State
}

// working is what a [Turn] and a [Run] have in common: the context of the turn, and what
// it does with the client.
type working struct {
	context.Context
	turn *engine.Turn
}

// Next is what a step function returns: how the turn continues.
type Next interface{ endsFunc() }

type (
	// asked ends the turn with questions.
	asked engine.Asked
	// gone continues in another step function.
	gone struct{ step string }
	// finished ends the saga.
	finished struct{ outcome engine.Outcome }
)

func (*asked) endsFunc()   {}
func (gone) endsFunc()     {}
func (finished) endsFunc() {}

// Ask suspends the saga until the client has answered all the given questions.
// Then the step function named next runs; it reads the answers with the
// questions' own Answer methods. A client that lacks what a question needs gets
// its alternative, if there is one ([steps.Otherwise]). Every question must be listed
// in the tool's Asks. A question asked in a later round again is a new question to the
// client.
func (t *Turn[Args, State]) Ask(next string, questions ...steps.Request) (Next, error) {
	if !t.turn.Has(next) {
		return nil, fmt.Errorf("Ask: there is no step function %q to get the answers; the tool's Steps must have it", next)
	}
	if len(questions) == 0 {
		return nil, fmt.Errorf("Ask: no question was given; use Goto(%q) to go on without asking", next)
	}
	resolved, err := t.turn.Resolve(questions, nil)
	return waiting(&engine.Asked{Next: next, Steps: resolved}, err, next)
}

// Goto continues with another step function in the same turn. Answers remain
// readable there.
func (t *Turn[Args, State]) Goto(step string) (Next, error) {
	if !t.turn.Has(step) {
		return nil, fmt.Errorf("Goto: there is no step function %q; the tool's Steps must have it", step)
	}
	return gone{step}, nil
}

// Pause ends the turn without a question: the client comes back at once, to any
// server, and next continues. It is for work that takes longer than one request should,
// cut into turns of which none is lost.
//
// Clients do not pause for ever: the official Go SDK's gives up at the third pause
// of a call, others after eight to ten turns of any kind. Clients of MCP before
// 2026-07-28 wait for all turns within one request.
func (t *Turn[Args, State]) Pause(next string) (Next, error) {
	if !t.turn.Has(next) {
		return nil, fmt.Errorf("Pause: there is no step function %q; the tool's Steps must have it", next)
	}
	return &asked{Next: next}, nil
}

// Yield ends the turn with a part of the result while there is more to come; next continues when
// the client comes back for it. What was given once is not given again. See [Run.Yield] for who
// is given what; a tool that yields must say so ([Info.Yields]).
func (t *Turn[Args, State]) Yield(next string, blocks ...content.Block) (Next, error) {
	a, err := t.turn.Yield(next, blocks)
	return waiting(a, err, next)
}

// Sleep ends the turn, and next continues when d has passed. It costs nothing meanwhile. See
// [Run.Sleep] for how long that may be. A sleep of zero or less is a Goto.
func (t *Turn[Args, State]) Sleep(d time.Duration, next string) (Next, error) {
	a, err := t.turn.Sleep(d, next)
	return waiting(a, err, next)
}

// Until is Sleep until a time. One in the past is a Goto.
func (t *Turn[Args, State]) Until(at time.Time, next string) (Next, error) {
	a, err := t.turn.Until("Until", at, next)
	return waiting(a, err, next)
}

// waiting ends a turn, unless there is nothing to wait for.
func waiting(a *engine.Asked, err error, next string) (Next, error) {
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return gone{next}, nil
	}
	return (*asked)(a), nil
}

// Finish ends the saga with a result.
func (t *Turn[Args, State]) Finish(r *content.Result) (Next, error) {
	if r == nil {
		return nil, fmt.Errorf("Finish: the result is nil")
	}
	return finished{engine.Outcome{Result: r}}, nil
}

// Textf ends the saga with a result of one block of text; see [content.Resultf].
func (t *Turn[Args, State]) Textf(format string, args ...any) (Next, error) {
	return finished{engine.Outcome{Result: content.Resultf(format, args...)}}, nil
}

// Structured ends the saga with a structured result: v as JSON, checked
// against the tool's output schema. The same JSON is given as text for clients
// that do not read structured results (MCP, server/tools, structured content).
func (t *Turn[Args, State]) Structured(v any) (Next, error) {
	raw, err := jsonv2.Marshal(v, schema.ResultJSONOptions)
	if err != nil {
		return nil, fmt.Errorf("Structured: %w", err)
	}
	return finished{engine.Outcome{Result: engine.StructuredResult(raw)}}, nil
}

// Messages ends a prompt.
func (t *Turn[Args, State]) Messages(m ...content.Message) (Next, error) {
	return finished{engine.Outcome{Messages: &engine.Messages{Messages: m}}}, nil
}

// Contents ends a resource.
func (t *Turn[Args, State]) Contents(c ...content.ResourceContents) (Next, error) {
	return finished{engine.Outcome{Contents: c}}, nil
}

// Now is the time of this turn, as of [Run.Now].
func (t *Turn[Args, State]) Now() time.Time { return t.turn.Now }

// Progress tells the client how far this turn has come, if it wants to know:
// done out of total, which is 0 if it is unknown. done must grow.
func (w working) Progress(done, total float64, message string) {
	w.turn.Progress(done, total, message)
}

// Log sends the client a log message, if it wants messages of that level. data
// is any value that encodes to JSON. It must not hold secrets. A flow that runs again logs
// again.
func (w working) Log(level slog.Level, data any) {
	w.turn.Log(level, data)
}

// Disconnect gives up the client's connection while the turn continues, and has the
// client come back for the result after retry: a turn that takes long then holds
// no connection open. Where the client's protocol does not know this (SEP-1699, MCP
// 2025-11-25 over HTTP), nothing happens.
func (w working) Disconnect(retry time.Duration) {
	w.turn.Disconnect(retry)
}

// ID identifies the saga; it is the same in all its turns. Give it to systems
// that accept an idempotency key, with a name for what is done.
func (w working) ID() ID { return w.turn.ID }

// Can reports whether the client can do all of the given features. A client may
// change between turns, so a flow asks before its first question only.
func (w working) Can(f steps.Features) bool { return w.turn.Can(f) }

func (w working) running() *engine.Turn { return w.turn }

// StepAnswer implements [steps.Answers]. Read answers with the question's
// Answer method instead; it knows the type.
func (w working) StepAnswer(id string) (steps.Answer, bool) {
	return w.turn.StepAnswer(id)
}

// Need fails if the client lacks one of the features.
// Return its error: the client learns what it would have to declare. Questions
// are checked when they are asked; this is for a tool that is of no use to a
// client that could not answer what comes later.
func (w working) Need(f steps.Features) error { return w.turn.Need(f) }
