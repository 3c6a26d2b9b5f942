// Package sagahooks is where the test kit gets between a saga and the world. It is
// internal: what runs in production does not change for the sake of tests, and
// no other package can make a saga believe what did not happen.
package sagahooks

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Call is a call of an effect's Do or Undo.
type Call struct {
	// Effect is the effect's name, Key its idempotency key.
	Effect, Key string
	// Input is the effect's input as it is recorded.
	Input Value
	// Undo: it is Undo that is called. Known says then whether Do reported success.
	Undo, Known bool
	// Undoable: the effect has an Undo. Irreversible: nothing is undone after it.
	// ReadOnly: it changes nothing.
	Undoable, Irreversible, ReadOnly bool
}

// Value is an effect's input or result as it is recorded: the JSON has null for each
// secret; the values of those are beside it.
type Value struct {
	JSON    json.RawMessage
	Secrets []byte
}

// Equal reports whether both are the same, secrets included.
func (v Value) Equal(w Value) bool {
	return bytes.Equal(v.JSON, w.JSON) && bytes.Equal(v.Secrets, w.Secrets)
}

// World stands between the effects of a turn and what they act on.
type World interface {
	// Perform is called instead of Do or Undo. It may call perform, which does what
	// would have been done and returns Do's result, and returns what the engine is to
	// believe: that [Value], or the result as a test gives it.
	Perform(ctx context.Context, c Call, perform func(context.Context) (Value, error)) (any, error)
	// Late is called for an effect that was asked for after a flow had suspended, or over: after
	// the tool's code had ended. The engine does not perform it.
	Late(effect string, over bool)
}

type key struct{}

// With returns a context in which turns act on w.
func With(ctx context.Context, w World) context.Context { return context.WithValue(ctx, key{}, w) }

// From returns the world of a turn in a test, and nil in production.
func From(ctx context.Context) World {
	w, _ := ctx.Value(key{}).(World)
	return w
}

// Stage is a saga as a test wants it to be: suspended before a step function,
// with the answers already there.
type Stage struct {
	// ID is the saga's.
	ID [16]byte
	// Step is the step function to run.
	Step string
	// Arguments are the tool's arguments, a JSON object.
	Arguments json.RawMessage
	// State is of the tool's state type; nil is its zero value.
	State any
	// Answers are to the questions that the step function reads, by their ids.
	Answers []steps.Answer
	// Effects were performed before.
	Effects []Performed
}

// Performed is an effect that was done in an earlier turn.
type Performed struct {
	// Effect is its name.
	Effect string
	// Input and Output are of the effect's types, or encode to the same JSON.
	Input, Output any
}
