package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Definition is a tool as its author writes it: a [Machine], or for prompts and
// resources a [Prompt] or [Resource].
type Definition interface {
	// Tool checks everything that can be checked before the first call and
	// returns the tool ready to run. It fails with a *[DefinitionError], or with
	// several of them joined, one for each problem.
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
	buildsOn    map[string][]string // what effects build on, also indirectly
	renamed     map[string]string   // questions of older revisions
	input       *schema
	output      *schema
	decoding    jsonv2.Options // of arguments
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
	reworded               []string
}

// toolName is what MCP allows, which is more than [ident.Valid].
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

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

// problems collects what is wrong with a definition, so that its author reads all
// of it at once.
type problems struct {
	tool string
	list []error
}

// add adds a problem, or one for each of the errors that err joins.
func (p *problems) add(err error, format string, args ...any) {
	for _, cause := range apart(err) {
		p.list = append(p.list, &DefinitionError{Tool: p.tool, Problem: fmt.Sprintf(format, args...), Err: cause})
	}
}

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

// err returns nil, the only problem, or all of them joined.
func (p *problems) err() error {
	list := slices.DeleteFunc(p.list, func(err error) bool { return err == nil })
	if len(list) == 1 {
		return list[0]
	}
	return errors.Join(list...)
}

// prepare checks and completes what all kinds of definitions have.
func (t *Tool) prepare(p *problems, given *jsonschema.Schema, raw json.RawMessage, args reflect.Type, output *jsonschema.Schema) {
	switch {
	case t.maxAttempts == 0:
		t.maxAttempts = defaultAttempts
	case t.maxAttempts < 0 || t.maxAttempts > maxAttempts:
		p.add(nil, "MaxAttempts is %d; it must be from 1 to %d", t.maxAttempts, maxAttempts)
	}
	if !toolName.MatchString(t.Name) {
		p.add(nil, "the name must be 1 to 128 characters of A-Z a-z 0-9 _ - .")
	}
	if t.MaxAge < 0 {
		p.add(nil, "MaxAge is negative")
	}
	t.checkQuestions(p)
	if input := t.inputSchema(p, given, raw, args); input != nil {
		var err error
		if t.input, t.InputSchema, err = resolve(input, raw); err != nil {
			p.add(err, "the input schema is not usable")
		} else if input.Type != "object" {
			p.add(nil, "the input schema must have the type object; use a struct for the arguments")
		}
	}
	if output != nil {
		var err error
		if t.output, t.OutputSchema, err = resolve(output, nil); err != nil {
			p.add(err, "the output schema is not usable")
		}
	}
}

// checkQuestions takes the questions that the tool may ask.
func (t *Tool) checkQuestions(p *problems) {
	t.questions = make(map[string]steps.Question, len(t.Questions))
	t.declared = make(map[string]*wording, len(t.Questions))
	for i, q := range t.Questions {
		if q == nil {
			p.add(nil, "Asks[%d] is nil", i)
			continue
		}
		id := q.StepID()
		switch {
		case !ident.Valid(id):
			p.add(nil, "Asks[%d] has the id %q; an id is %s", i, id, ident.Rule)
			continue
		case t.questions[id] != nil:
			p.add(nil, "two questions in Asks have the id %q", id)
			continue
		}
		if err := steps.Verify(q); err != nil {
			p.add(err, "question %q cannot be asked", id)
		}
		t.questions[id], t.declared[id] = q, wordingOf(q)
	}
}

// declare takes the effects that the tool may perform.
func (t *Tool) declare(p *problems, effects []Declared) {
	t.effects = make(map[string]*declaredEffect, len(effects))
	for i, e := range effects {
		if e == nil {
			p.add(nil, "Effects[%d] is nil", i)
			continue
		}
		d := e.declaration()
		switch {
		case d.problem != "":
			p.add(nil, "Effects[%d] (%q) %s", i, d.name, d.problem)
			continue
		case t.effects[d.name] != nil:
			p.add(nil, "two effects have the name %q", d.name)
			continue
		}
		in, out, err := e.recordable()
		if err != nil {
			p.add(err, "effect %q cannot be recorded", d.name)
		}
		t.effects[d.name] = &declaredEffect{e, in, out}
	}
	t.buildsOn = make(map[string][]string)
	for _, e := range effects {
		if e == nil {
			continue
		}
		if d := t.effects[e.declaration().name]; d != nil && d.Declared == e {
			t.checkBuildsOn(p, e.declaration())
		}
	}
}

func (t *Tool) problem(err error, format string, args ...any) error {
	return &DefinitionError{Tool: t.Name, Problem: fmt.Sprintf(format, args...), Err: err}
}
