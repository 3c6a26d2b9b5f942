package saga

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Definition is a tool as its author writes it: a [Machine] or a [Flow], or for prompts
// and resources a [Prompt] or [Resource].
type Definition = interface {
	// Compile checks everything that can be checked before the first call and returns
	// what servers run. It fails with a *[DefinitionError], or with several of them
	// joined, one for each problem.
	Compile() (*engine.Program, error)
}

// Info is what all definitions have. [Machine] and [Flow] embed it, and [Prompt] and
// [Resource] with the Machine that they embed.
type Info struct {
	// Name identifies the tool: 1 to 128 of A-Z a-z 0-9 _ - .
	Name string
	// Title is a name for people; Description tells models what the tool is for.
	Title, Description string
	// Revision is to be raised when suspended sagas of the old code cannot simply go on
	// in the new: when the state or the names of step functions change, or with every
	// change of what a flow asks or does. Arguments of sagas that are under way come as they
	// were checked at their start: new tags do not bind them, and new fields are zero. Default 0.
	Revision uint32
	// Renamed tells the present names of what had others in older revisions: a machine's
	// step functions, or a flow's questions.
	Renamed map[string]string
	// Asks declares every question that the tool may ask, Effects every effect that it
	// may perform with [Do].
	Asks    []steps.Question
	Effects []Declared
	// Annotations are hints for clients, or nil.
	Annotations *ToolAnnotations
	// InputSchema replaces the schema inferred from the type of the arguments. They must
	// then still decode into that, and it must say what the tags of its fields say.
	InputSchema *jsonschema.Schema
	// RawInputSchema is an InputSchema as JSON, given instead of it. Clients are
	// shown it as it stands, with its order and all its keywords.
	RawInputSchema json.RawMessage
	// MaxAge bounds the whole saga, from its first turn; zero means no bound
	// beyond that of each turn's token. A token is taken for a minute more, as clocks
	// differ; a saga that asks again by then, or is a task, has ended.
	MaxAge time.Duration
	// MaxAttempts is how often a question may be answered with something that
	// does not fit its form before the saga gives up. Default 3.
	MaxAttempts int
	// SingleUse says whether each turn of a saga is taken once, or may be repeated and
	// forked. Default [SingleUseOfEffects].
	SingleUse SingleUse
	// ShortTokens has a server with a ledger keep there what a token would hold, so that the
	// token has some 200 characters: for models that must repeat it. What would exceed the
	// longest token is kept there anyway. Without a ledger it has no effect.
	ShortTokens bool
	// Yields says that the tool may give its result in parts ([Run.Yield], [Turn.Yield]), so
	// that lists can say how clients go on: they show an optional argument named resumeToken,
	// a name that the tool's own arguments cannot have. Without it, to yield is an error.
	Yields bool
	// Routes narrow the ways by which its questions reach the user; zero is any.
	Routes steps.Routes
	// Tasks says whether the tool may run as a task; its zero value is that it may not.
	Tasks Tasks
}

// SingleUse says which turns of a tool's sagas are taken once. Without it the same turn can
// be taken again with the same or other answers, as what a client knows of a saga is all
// that there is of it. With it the same answers get the same response, and others are
// refused; nor can what has ended go on or be undone; and what the saga did is undone when
// its time is over and no client has come back. It takes a server with a ledger, which remembers.
type SingleUse uint8

// The values of [SingleUse].
const (
	// SingleUseOfEffects: turns are taken once if the tool declares effects and the server
	// has a ledger.
	SingleUseOfEffects = SingleUse(engine.SingleUseOfEffects)
	// SingleUseRequired: turns are taken once whether there are effects or not, and a
	// server without a ledger refuses to start with the tool.
	SingleUseRequired = SingleUse(engine.SingleUseRequired)
	// SingleUseNever: turns may be taken any number of times. Effects of a saga that no client
	// comes back for are not undone.
	SingleUseNever = SingleUse(engine.SingleUseNever)
)

// definition is the info as the engine takes it, with the rest still missing.
func (i *Info) definition() engine.Definition {
	d := engine.Definition{
		Name: i.Name, Title: i.Title, Description: i.Description, Revision: i.Revision, Asks: i.Asks, Effects: declared(i.Effects),
		InputSchema: i.InputSchema, RawInputSchema: i.RawInputSchema, MaxAge: i.MaxAge, MaxAttempts: i.MaxAttempts, SingleUse: engine.SingleUse(i.SingleUse), ShortTokens: i.ShortTokens,
		Yields: i.Yields, Routes: i.Routes, Tasks: engine.Tasks{Mode: engine.TaskMode(i.Tasks.Mode), After: i.Tasks.After, TTL: i.Tasks.TTL, Poll: i.Tasks.Poll, Keep: i.Tasks.Keep},
	}
	if i.Annotations != nil {
		d.Annotations = i.Annotations
	}
	return d
}

// ToolAnnotations describe a tool's behaviour to clients.
// They are hints; a client must not rely on them for its safety.
type ToolAnnotations struct {
	// Title is a name for people.
	Title string `json:"title,omitzero"`
	// ReadOnlyHint: the tool changes nothing. Default false.
	ReadOnlyHint bool `json:"readOnlyHint,omitzero"`
	// DestructiveHint: the tool may destroy something. Default true.
	DestructiveHint *bool `json:"destructiveHint,omitzero"`
	// IdempotentHint: calling it again with the same arguments changes nothing more.
	IdempotentHint bool `json:"idempotentHint,omitzero"`
	// OpenWorldHint: the tool deals with things outside the server. Default true.
	OpenWorldHint *bool `json:"openWorldHint,omitzero"`
}

// DefinitionError says what is wrong with a definition: its field Tool is the tool's
// name, Problem what is wrong and what to do, and Err the cause or nil. It is returned
// when the tool is registered. If several things are wrong, there is one for each,
// joined as by [errors.Join].
type DefinitionError = engine.DefinitionError

// Completer suggests values for an argument that begin with, or otherwise suit,
// what was typed so far. others holds the arguments that are filled in already.
type Completer = func(ctx context.Context, typed string, others map[string]string) ([]string, error)

// ID identifies a saga: 128 random bits, the same in all its turns.
type ID [16]byte

// String returns the id in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// SchemaFor returns the JSON Schema of a Go type and of its fields' tags, for
// [Machine.OutputSchema]. It fails if a tag of a field has no meaning.
func SchemaFor[T any]() (*jsonschema.Schema, error) {
	s, _, err := schema.ForTool(reflect.TypeFor[T](), nil)
	return s, err
}

// ErrNotFound is what a resource's code returns, wrapped or not, when there is
// nothing at the URI.
var ErrNotFound = engine.ErrNotFound

// Failf ends the saga with a text that the caller reads. Each %w verb keeps a
// cause for the log and shows its text to the caller.
//
// Any other error that a step function or a flow returns is hidden from the caller, as
// it may hold what only the operator should see, and goes to the server's log.
func Failf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	cause := errors.Unwrap(err)
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		cause = errors.Join(several.Unwrap()...)
	}
	return &engine.ToolError{Text: err.Error(), Err: cause}
}

// Fail is [Failf] with a cause that the caller does not read: it is for the log only.
func Fail(text string, cause error) error { return &engine.ToolError{Text: text, Err: cause} }
