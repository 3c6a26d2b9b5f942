package saga

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Flow is a tool written as one function from beginning to end, which runs again in every
// turn; the package documentation says what that demands. What it asks and does is found in the
// record by name; the order of different names does not matter. The n-th performance of an effect
// keeps its input, also in a new revision.
//
// The record grows with the conversation, and so does the token; a [Machine]
// carries no more than its state. Flows are for conversations of a few rounds.
//
// A saga of an older revision continues: what it has recorded is found by name, what is
// new is asked or done when the flow comes to it.
type Flow[Args, Out any] struct {
	Info
	// Run is the flow. A result of type string is given as text, a *[content.Result]
	// as it is; any other type as structured content, with its schema as the tool's
	// output schema. A flow that returns an interface has none.
	Run func(r *Run, in Args) (Out, error)
	// Oldest is the oldest revision whose sagas go on; those before it are undone.
	Oldest uint32
}

// Compile implements [Definition].
func (f Flow[Args, Out]) Compile() (*engine.Program, error) {
	p := &engine.Problems{Tool: f.Name}
	output, err := f.outputSchema()
	if err != nil {
		p.Add(err, "no output schema can be made from the type %v of the result", reflect.TypeFor[Out]())
	}
	d := f.definition()
	d.Arguments, d.OutputSchema, d.Code = reflect.TypeFor[Args](), output, &flowCode[Args, Out]{f}
	d.Steps = []string{engine.FlowStep}
	t := engine.NewProgram(d, p)
	checkArguments(d.Arguments, p)
	if f.Run == nil {
		p.Add(nil, "Run is nil")
	}
	if f.Oldest > f.Revision {
		p.Add(nil, "Oldest is %d, which is newer than the Revision %d", f.Oldest, f.Revision)
	}
	t.RenameQuestions(p, f.Renamed)
	return t, p.Err()
}

func (f Flow[Args, Out]) outputSchema() (*jsonschema.Schema, error) {
	switch out := reflect.TypeFor[Out](); {
	case out == reflect.TypeFor[string](), out == reflect.TypeFor[*content.Result](), out.Kind() == reflect.Struct && out.NumField() == 0, out.Kind() == reflect.Interface:
		return nil, nil
	}
	return SchemaFor[Out]()
}

type flowCode[Args, Out any] struct{ flow Flow[Args, Out] }

// Reads reports whether sagas of a revision go on.
func (c *flowCode[Args, Out]) Reads(revision uint32) bool {
	return revision >= c.flow.Oldest && revision <= c.flow.Revision
}

// Run runs the flow until it asks or ends.
func (c *flowCode[Args, Out]) Run(t *engine.Turn, args json.RawMessage, recorded, _ []byte) (engine.Ended, error) {
	var in Args
	if err := t.DecodeArguments(args, &in); err != nil {
		return engine.Ended{}, &engine.StepFailure{Tool: c.flow.Name, Step: t.Step, Err: err}
	}
	return t.RunFlow(recorded, func(r *engine.Replay) (any, error) {
		return c.flow.Run(&Run{working{t.Context, t}, r}, in)
	})
}

// Stage refuses: a flow cannot begin in the middle.
func (c *flowCode[Args, Out]) Stage(any) (encoded, secrets []byte, err error) {
	return nil, nil, errors.New("a flow has no step functions and no state")
}
