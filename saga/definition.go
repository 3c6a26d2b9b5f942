package saga

import (
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Definition is a tool as its author writes it: a [Machine] or a [Flow], or for prompts
// and resources a [Prompt] or [Resource].
type Definition = interface {
	// Compile checks everything that can be checked before the first call and returns
	// what servers run. It fails with a *[DefinitionError], or with several of them
	// joined, one for each problem.
	Compile() (*engine.Program, error)
}

// Annotations describe a tool's behaviour to clients: MCP's ToolAnnotations.
// They are hints; a client must not rely on them for its safety.
type Annotations struct {
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

// hints returns what the annotations encode as; nil if there are none.
func (a *Annotations) hints() any {
	if a == nil {
		return nil
	}
	return a
}

// DefinitionError says what is wrong with a definition: its field Tool is the tool's
// name, Problem what is wrong and what to do, and Err the cause or nil. It is returned
// when the tool is registered. If several things are wrong, there is one for each,
// joined as by [errors.Join].
type DefinitionError = engine.DefinitionError

// FieldError is the cause of a [DefinitionError] that a field of the arguments' or the
// result's type is wrong: its field Field names the type and its field, Tag is the
// struct tag or empty, and Reason says what is wrong and what to do.
type FieldError = engine.FieldError

// Completer suggests values for an argument that begin with, or otherwise suit,
// what was typed so far. others holds the arguments that are filled in already.
type Completer = engine.Completer

// ID identifies a saga: 128 random bits, the same in all its turns.
type ID [16]byte

// String returns the id in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// SchemaFor returns the JSON Schema of a Go type and of its fields' tags, for
// [Machine.OutputSchema]. It fails with a *[FieldError] if a tag has no meaning.
func SchemaFor[T any]() (*jsonschema.Schema, error) {
	return engine.SchemaOf(reflect.TypeFor[T]())
}

// ErrNotFound is what a resource's code returns, wrapped or not, when there is
// nothing at the URI.
var ErrNotFound = engine.ErrNotFound

// Failf ends the saga with a text that the caller reads. A %w verb keeps the
// cause for the log and shows its text to the caller.
//
// Any other error that a step function or a flow returns is hidden from the caller, as
// it may hold what only the operator should see, and goes to the server's log.
func Failf(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &engine.ToolError{Text: err.Error(), Err: errors.Unwrap(err)}
}
