package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Flow is a tool written as one function from beginning to end:
//
//	func deploy(r *saga.Run, in Args) (string, error) {
//		where, err := saga.Ask(r, target)
//		if err != nil {
//			return "", err
//		}
//		...
//	}
//
// When it asks, the function ends: [Ask] returns an error that the function must
// return too. When the answers are there, it runs again from its beginning, and
// what was answered or performed before is returned from the record. So the
// function must do the same each time: everything that may differ (time, random
// numbers, what others have changed meanwhile) has to come from the [Run], or be
// performed as an effect with [Do]. What it asks and does is found by name and, for
// effects, input; the order of what is recorded does not matter.
//
// The record grows with the conversation, and so does the token; a [Machine]
// carries no more than its state. Flows are for conversations of a few rounds.
type Flow[Args, Out any] struct {
	// Name, Title, Description and Annotations are as in a [Machine].
	Name, Title, Description string
	Annotations              *Annotations
	// Revision is to be raised with every change of what the flow asks or does.
	// Sagas of older revisions go on: what they have recorded is found by name,
	// what is new is asked or done when the flow comes to it.
	Revision uint32
	// Oldest is the oldest revision whose sagas go on; those before it are undone.
	Oldest uint32
	// Renamed tells the present names of questions that had others in older
	// revisions.
	Renamed map[string]string
	// Asks declares every question that the flow may ask, Effects every effect.
	Asks    []steps.Question
	Effects []Declared
	// Run is the flow. A result of type string is given as text, a *[Result] as it
	// is; any other type as structured content, with its schema as the tool's
	// output schema.
	Run func(r *Run, in Args) (Out, error)
	// InputSchema, RawInputSchema, MaxAge and MaxAttempts are as in a [Machine].
	InputSchema    *jsonschema.Schema
	RawInputSchema json.RawMessage
	MaxAge         time.Duration
	MaxAttempts    int
}

// flowStep is where every saga of a flow goes on.
const flowStep = "flow"

// Tool implements [Definition].
func (f Flow[Args, Out]) Tool() (*Tool, error) {
	t := &Tool{
		Name: f.Name, Title: f.Title, Description: f.Description, Revision: f.Revision,
		Annotations: f.Annotations, Questions: f.Asks, MaxAge: f.MaxAge, maxAttempts: f.MaxAttempts,
	}
	p := &problems{tool: f.Name}
	output, err := f.outputSchema()
	if err != nil {
		p.add(err, "no output schema can be made from the type %v of the result", reflect.TypeFor[Out]())
	}
	t.prepare(p, f.InputSchema, f.RawInputSchema, reflect.TypeFor[Args](), output)
	t.declare(p, f.Effects)
	if f.Run == nil {
		p.add(nil, "Run is nil")
	}
	if f.Oldest > f.Revision {
		p.add(nil, "Oldest is %d, which is newer than the Revision %d", f.Oldest, f.Revision)
	}
	for _, old := range slices.Sorted(maps.Keys(f.Renamed)) {
		if now := f.Renamed[old]; t.questions[now] == nil || t.questions[old] != nil {
			p.add(nil, "Renamed says that question %q is now %q, but the former exists or the latter does not", old, now)
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	t.renamed = f.Renamed
	t.program = &flowProgram[Args, Out]{f}
	return t, nil
}

func (f Flow[Args, Out]) outputSchema() (*jsonschema.Schema, error) {
	switch out := reflect.TypeFor[Out](); {
	case out == reflect.TypeFor[string](), out == reflect.TypeFor[*Result](), out.Kind() == reflect.Struct && out.NumField() == 0:
		return nil, nil
	}
	return SchemaFor[Out]()
}

// flowProgram runs a flow.
type flowProgram[Args, Out any] struct{ flow Flow[Args, Out] }

func (p *flowProgram[Args, Out]) has(step string) bool {
	return step == startStep || step == flowStep
}

func (p *flowProgram[Args, Out]) reads(revision uint32) bool {
	return revision >= p.flow.Oldest && revision <= p.flow.Revision
}

func (p *flowProgram[Args, Out]) run(tc *turnContext, step string, args json.RawMessage, state, _ []byte) (ran, error) {
	fail := func(err error) (ran, error) { return ran{}, &StepFailure{p.flow.Name, step, err} }
	var in Args
	if err := tc.tool.decodeArguments(args, &in); err != nil {
		return fail(err)
	}
	r := &Run{turn: tc}
	tc.replay = r
	if err := r.restore(state); err != nil {
		return ran{}, &PositionError{p.flow.Name, err}
	}
	out, err := protectFlow(r, in, p.flow.Run)
	switch {
	case tc.log.stopped != nil:
		return fail(tc.log.stopped)
	case r.diverged != nil:
		return fail(r.diverged) // whatever the flow made of it
	case isPanic(err):
		return fail(err) // also one after a question that was swallowed
	case r.turn.latched != nil && !errors.Is(err, r.turn.latched):
		return fail(&SwallowedError{Waiting: r.waiting().String(), Returned: err})
	case r.asked != nil && r.turn.latched != nil:
		if err := r.checkReached("question " + r.waiting().String()); err != nil {
			return fail(err)
		}
		return ran{asked: r.asked, record: r.encode(), reworded: r.rec.reworded()}, nil
	case err != nil:
		return fail(err)
	}
	if err := r.checkReached("the end of the flow"); err != nil {
		return fail(err)
	}
	result, err := flowResult(out)
	if err != nil {
		return fail(err)
	}
	return ran{finished: finished{Outcome{Result: result}}}, nil
}

func isPanic(err error) bool {
	var p *PanicError
	return errors.As(err, &p)
}

func protectFlow[Args, Out any](r *Run, in Args, f func(*Run, Args) (Out, error)) (out Out, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f(r, in)
}

func flowResult(out any) (*Result, error) {
	switch out := out.(type) {
	case string:
		return &Result{Content: content.Blocks{content.Text{Text: out}}}, nil
	case *Result:
		if out == nil {
			return nil, errors.New("the result is nil")
		}
		return out, nil
	}
	if t := reflect.TypeOf(out); t.Kind() == reflect.Struct && t.NumField() == 0 {
		return &Result{}, nil
	}
	raw, err := jsonv2.Marshal(out, jsonOptions)
	if err != nil {
		return nil, fmt.Errorf("the result cannot be encoded: %w", err)
	}
	return structuredResult(raw), nil
}

// SwallowedError says that a flow went on after it had asked: it did not return
// the error that asking returned.
type SwallowedError struct {
	// Waiting names the questions that were asked.
	Waiting string
	// Returned is what the flow returned instead, or nil if it returned a result.
	Returned error
}

// Error implements error.
func (e *SwallowedError) Error() string {
	instead := "a result"
	if e.Returned != nil {
		instead = fmt.Sprintf("the error %q", e.Returned)
	}
	return fmt.Sprintf("the flow asked %s and then returned %s; it must return the error that asking returned, as it is or wrapped with %%w", e.Waiting, instead)
}

// DivergedError says that a flow that ran again did not do what it had done
// before: it left out something that is recorded, or did something new before it, or
// gave an effect another input. It depends on something that has changed: take time,
// ids and random numbers from the [Run], and let everything else that may change be an
// effect. Or the code is another one: raise the Revision. The run is stopped before
// anything new is performed, whatever the flow does with the error.
type DivergedError struct {
	// Recorded is what the flow did before, Came what it did now.
	Recorded, Came string
}

// Error implements error.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("the flow diverges from its record: recorded is %s, but now came %s; time, ids and random numbers must come from the Run, and a changed flow needs a new Revision", e.Recorded, e.Came)
}
