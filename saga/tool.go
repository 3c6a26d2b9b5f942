package saga

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Definition is a tool as its author writes it: a [Machine], or for prompts and
// resources a [Prompt] or [Resource].
type Definition interface {
	// Tool checks everything that can be checked before the first call and
	// returns the tool ready to run. It fails with a *[DefinitionError].
	Tool() (*Tool, error)
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

// Tool is a definition that has passed all checks. It is immutable and safe for
// concurrent use; it holds nothing of any saga.
type Tool struct {
	// Kind says whether it is a tool, a prompt or a resource.
	Kind Kind
	// Name identifies the tool: 1 to 128 of A-Z a-z 0-9 _ - .
	Name string
	// Title and Description are for people and models.
	Title, Description string
	// Revision counts changes after which old positions cannot be resumed.
	Revision uint32
	// InputSchema and OutputSchema are JSON Schemas; OutputSchema may be nil.
	InputSchema, OutputSchema json.RawMessage
	// Annotations are hints for clients, or nil.
	Annotations *Annotations
	// Questions are what the tool may ask, in the order of its definition. A
	// tool without any is an ordinary tool: it ends in its first turn.
	Questions []steps.Question
	// MaxAge bounds the whole saga from its first turn; zero means no bound.
	MaxAge time.Duration

	// Prompt is set for prompts, Resource for resources.
	Prompt   *PromptInfo
	Resource *ResourceInfo
	// Complete suggests values for arguments of prompts and resources, by name.
	Complete map[string]Completer

	questions   map[string]steps.Question
	declared    map[string]*wording // by question id
	effects     map[string]*declaredEffect
	renamed     map[string]string // questions of older revisions
	input       *schema
	output      *schema
	maxAttempts int
	program     program
}

// program is what a definition's kind adds to the engine: how its code runs.
type program interface {
	// has reports whether a step function of that name exists.
	has(step string) bool
	// reads reports whether positions of that revision can be resumed.
	reads(revision uint32) bool
	// run runs step functions until one ends the turn. What it keeps for the next
	// belongs to an asked outcome.
	run(ctx *turnContext, step string, args json.RawMessage, kept, secrets []byte) (ran, error)
	// stage encodes a state that a test supplies.
	stage(state any) (encoded, secrets []byte, err error)
	// decoded returns the state at a position.
	decoded(pos *Position) (any, error)
}

// ran is how a turn's code ended: with questions or with a result.
type ran struct {
	asked    *asked
	finished finished
	// record is a flow's, state and secrets are a machine's.
	record, state, secrets []byte
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// Names of questions leave out what the engine adds to ids: ~ and #.
var questionID = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,64}$`)

// question returns the declared question that a step id belongs to; several
// instances of one question differ in what follows the #.
func (t *Tool) question(id string) steps.Question {
	return t.questions[t.present(steps.BaseID(id))]
}

// present returns the name that a question of an older revision has now.
func (t *Tool) present(id string) string {
	if now := t.renamed[id]; now != "" {
		return now
	}
	return id
}

// prepare checks and completes what all kinds of definitions have.
func (t *Tool) prepare(given *jsonschema.Schema, raw json.RawMessage, args reflect.Type, output *jsonschema.Schema) error {
	switch {
	case t.maxAttempts == 0:
		t.maxAttempts = defaultAttempts
	case t.maxAttempts < 0 || t.maxAttempts > maxAttempts:
		return t.problem(nil, "MaxAttempts is %d; it must be from 1 to %d", t.maxAttempts, maxAttempts)
	}
	input, err := t.inputSchema(given, raw, args)
	if err != nil {
		return err
	}
	return t.check(input, raw, output)
}

// declare takes the effects that the tool may perform.
func (t *Tool) declare(effects []Declared) error {
	t.effects = make(map[string]*declaredEffect, len(effects))
	for i, e := range effects {
		if e == nil {
			return t.problem(nil, "Effects[%d] is nil", i)
		}
		name, _, problem := e.declaration()
		if problem != "" {
			return t.problem(nil, "Effects[%d] (%q) %s", i, name, problem)
		}
		if t.effects[name] != nil {
			return t.problem(nil, "two effects have the name %q", name)
		}
		in, out, err := e.recordable()
		if err != nil {
			return t.problem(err, "effect %q cannot be recorded", name)
		}
		t.effects[name] = &declaredEffect{e, in, out}
	}
	return nil
}

func (t *Tool) problem(err error, format string, args ...any) error {
	return &DefinitionError{Tool: t.Name, Problem: fmt.Sprintf(format, args...), Err: err}
}

// check verifies the parts that all kinds of tools have, and prepares them.
func (t *Tool) check(input *jsonschema.Schema, raw json.RawMessage, output *jsonschema.Schema) error {
	if !toolName.MatchString(t.Name) {
		return t.problem(nil, "the name must be 1 to 128 characters of A-Z a-z 0-9 _ - .")
	}
	if t.MaxAge < 0 {
		return t.problem(nil, "MaxAge is negative")
	}
	t.questions = make(map[string]steps.Question, len(t.Questions))
	t.declared = make(map[string]*wording, len(t.Questions))
	for i, q := range t.Questions {
		if q == nil {
			return t.problem(nil, "Asks[%d] is nil", i)
		}
		id := q.StepID()
		if !questionID.MatchString(id) {
			return t.problem(nil, "Asks[%d] has the id %q; an id is 1 to 64 characters of A-Z a-z 0-9 _ - . : /", i, id)
		}
		if t.questions[id] != nil {
			return t.problem(nil, "two questions in Asks have the id %q", id)
		}
		if err := steps.Verify(q); err != nil {
			return t.problem(err, "question %q cannot be asked", id)
		}
		t.questions[id], t.declared[id] = q, wordingOf(q)
	}
	var err error
	if t.input, t.InputSchema, err = resolve(input, raw); err != nil {
		return t.problem(err, "the input schema is not usable")
	}
	if input.Type != "object" {
		return t.problem(nil, "the input schema must have the type object; use a struct for the arguments")
	}
	if output == nil {
		return nil
	}
	if t.output, t.OutputSchema, err = resolve(output, nil); err != nil {
		return t.problem(err, "the output schema is not usable")
	}
	return nil
}
