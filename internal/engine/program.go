package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Program is a tool, a prompt or a resource that has passed all checks. It is
// immutable and safe for concurrent use; it holds nothing of any saga.
type Program struct {
	// Kind says which of the three it is.
	Kind Kind
	// Name identifies it among those of its kind: 1 to 128 of A-Z a-z 0-9 _ - .
	Name string
	// Title and Description are for people and models.
	Title, Description string
	// Revision counts changes after which old positions cannot be resumed.
	Revision uint32
	// InputSchema and OutputSchema are JSON Schemas; OutputSchema may be nil.
	InputSchema, OutputSchema json.RawMessage
	// Annotations are hints for clients, MCP's ToolAnnotations, or nil.
	Annotations json.RawMessage
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
	effects     map[string]Effect
	buildsOn    map[string][]string // what effects build on, also indirectly
	renamed     map[string]string   // questions of older revisions
	input       *schema.Schema
	output      *schema.Schema
	decoding    jsonv2.Options // of arguments
	maxAttempts int
	code        Code
}

// Code is the author's part of a program: a machine's step functions, or a flow. Its
// types are known behind it only.
type Code interface {
	// Has reports whether a step function of that name exists.
	Has(step string) bool
	// Reads reports whether positions of that revision can be resumed.
	Reads(revision uint32) bool
	// Run runs step functions until one ends the turn. kept and secrets are what the
	// last turn left in [Ended].
	Run(t *Turn, step string, args json.RawMessage, kept, secrets []byte) (Ended, error)
	// Stage encodes a state that a test supplies.
	Stage(state any) (encoded, secrets []byte, err error)
	// Decoded shows, to a test, what a state of that revision decodes to; nil if there
	// is none.
	Decoded(revision uint32, kept, secrets []byte) (json.RawMessage, error)
}

// Ended is how a turn's code ended: with questions or with a result.
type Ended struct {
	// Asked are the questions; nil if the saga has ended.
	Asked *Asked
	// Outcome is the result.
	Outcome Outcome
	// Record is what a flow keeps for the next turn, State and Secrets are a machine's.
	Record, State, Secrets []byte
	// Reworded are as in [Outcome].
	Reworded []string
}

// Asked are questions that end a turn. Without any, the turn is only a pause.
type Asked struct {
	// Next is the step function that gets the answers.
	Next string
	// Steps are the questions, as they are put to this client.
	Steps []steps.Step
}

// StartStep is the name of the step function that begins a saga.
const StartStep = "start"

// Names and bounds that the engine uses itself.
const (
	defaultAttempts = 3
	maxAttempts     = 100
)

// Definition is what all definitions have.
type Definition struct {
	Name, Title, Description string
	Revision                 uint32
	// Annotations encode to JSON; nil if there are none.
	Annotations any
	Asks        []steps.Question
	// Effects has nil for each that its author left nil.
	Effects []Effect
	// Arguments is their type in Go. InputSchema or RawInputSchema replace the schema
	// that follows from it.
	Arguments      reflect.Type
	InputSchema    *jsonschema.Schema
	RawInputSchema json.RawMessage
	OutputSchema   *jsonschema.Schema
	MaxAge         time.Duration
	MaxAttempts    int
	Code           Code
}

// NewProgram makes a program of a definition. What is wrong with it is added to p.
func NewProgram(d Definition, p *Problems) *Program {
	t := &Program{
		Name: d.Name, Title: d.Title, Description: d.Description, Revision: d.Revision,
		Questions: d.Asks, MaxAge: d.MaxAge, maxAttempts: d.MaxAttempts, code: d.Code,
	}
	if d.Annotations != nil {
		var err error
		if t.Annotations, err = jsonv2.Marshal(d.Annotations, schema.JSONOptions); err != nil {
			p.Add(err, "its Annotations cannot be encoded")
		}
	}
	t.prepare(p, d.InputSchema, d.RawInputSchema, d.Arguments, d.OutputSchema)
	t.declare(p, d.Effects)
	return t
}

// toolName is what MCP allows, which is more than [ident.Valid].
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// question returns the declared question that a step id belongs to; several
// instances of one question differ in what follows the #.
func (t *Program) question(id string) steps.Question {
	return t.questions[t.present(ident.Base(id))]
}

// present returns the name that a question of an older revision has now.
func (t *Program) present(id string) string {
	if now := t.renamed[id]; now != "" {
		return now
	}
	return id
}

// Problems collects what is wrong with a definition, so that its author reads all
// of it at once.
type Problems struct {
	// Tool is its name.
	Tool string
	list []error
}

// Add adds a problem, or one for each of the errors that err joins.
func (p *Problems) Add(err error, format string, args ...any) {
	for _, cause := range apart(err) {
		p.list = append(p.list, &DefinitionError{Tool: p.Tool, Problem: fmt.Sprintf(format, args...), Err: cause})
	}
}

// Join adds an error that says all itself. A nil one is none.
func (p *Problems) Join(err error) { p.list = append(p.list, err) }

// apart returns the errors that err joins, or err alone.
func apart(err error) (list []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		list = append(list, apart(e)...)
	}
	return list
}

// Err returns all of them joined, or nil.
func (p *Problems) Err() error { return errors.Join(p.list...) }

// prepare checks and completes what all kinds of definitions have.
func (t *Program) prepare(p *Problems, given *jsonschema.Schema, raw json.RawMessage, args reflect.Type, output *jsonschema.Schema) {
	switch {
	case t.maxAttempts == 0:
		t.maxAttempts = defaultAttempts
	case t.maxAttempts < 0 || t.maxAttempts > maxAttempts:
		p.Add(nil, "MaxAttempts is %d; it must be from 1 to %d", t.maxAttempts, maxAttempts)
	}
	if !toolName.MatchString(t.Name) {
		p.Add(nil, "the name must be 1 to 128 characters of A-Z a-z 0-9 _ - .")
	}
	if t.MaxAge < 0 {
		p.Add(nil, "MaxAge is negative")
	}
	t.checkQuestions(p)
	if input := t.inputSchema(p, given, raw, args); input != nil {
		var err error
		if t.input, t.InputSchema, err = schema.Resolve(input, raw); err != nil {
			p.Add(err, "the input schema is not usable")
		} else if input.Type != "object" {
			p.Add(nil, "the input schema must have the type object; use a struct for the arguments")
		}
	}
	if output != nil {
		var err error
		if t.output, t.OutputSchema, err = schema.Resolve(output, nil); err != nil {
			p.Add(err, "the output schema is not usable")
		}
	}
}

// checkQuestions takes the questions that the tool may ask.
func (t *Program) checkQuestions(p *Problems) {
	t.questions = make(map[string]steps.Question, len(t.Questions))
	t.declared = make(map[string]*wording, len(t.Questions))
	for i, q := range t.Questions {
		if q == nil {
			p.Add(nil, "Asks[%d] is nil", i)
			continue
		}
		id := q.StepID()
		switch {
		case !ident.Valid(id):
			p.Add(nil, "Asks[%d] has the id %q; an id is %s", i, id, ident.Rule)
			continue
		case t.questions[id] != nil:
			p.Add(nil, "two questions in Asks have the id %q", id)
			continue
		}
		if err := q.Verify(); err != nil {
			p.Add(err, "question %q cannot be asked", id)
		}
		t.questions[id], t.declared[id] = q, wordingOf(q)
	}
}

func (t *Program) problem(err error, format string, args ...any) error {
	return &DefinitionError{Tool: t.Name, Problem: fmt.Sprintf(format, args...), Err: err}
}

// RenameQuestions has the present names of questions that had others in older revisions.
func (t *Program) RenameQuestions(p *Problems, renamed map[string]string) {
	for _, old := range slices.Sorted(maps.Keys(renamed)) {
		if now := renamed[old]; t.questions[now] == nil || t.questions[old] != nil {
			p.Add(nil, "Renamed says that question %q is now %q, but the former exists or the latter does not", old, now)
		}
	}
	t.renamed = renamed
}
