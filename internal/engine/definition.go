package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Definition is what all definitions have.
type Definition struct {
	// Name identifies the program among those of its kind: 1 to 128 of A-Z a-z 0-9 _ - .
	Name string
	// Title and Description are for people and models.
	Title, Description string
	// Revision counts changes after which old positions cannot be resumed.
	Revision uint32
	// Annotations encode to JSON; nil if there are none.
	Annotations any
	// Asks are what the program may ask, in the order of its definition. One without any is an ordinary
	// tool: it ends in its first turn.
	Asks []steps.Question
	// Effects has nil for each that its author left nil.
	Effects []Effect
	// Arguments is their type in Go. InputSchema or RawInputSchema replace the schema
	// that follows from it.
	Arguments      reflect.Type
	InputSchema    *jsonschema.Schema
	RawInputSchema json.RawMessage
	OutputSchema   *jsonschema.Schema
	// MaxAge bounds the whole saga from its first turn; zero means no bound.
	MaxAge time.Duration
	// MaxAttempts is how often a question may be answered with what does not fit; zero is 3.
	MaxAttempts int
	// SingleUse says whether each of its turns is taken once.
	SingleUse SingleUse
	// ShortTokens: what a token holds is kept elsewhere if possible.
	ShortTokens bool
	// Yields says that it may give its result in parts.
	Yields bool
	// Routes are those of all its questions; zero is any.
	Routes steps.Routes
	// Tasks says whether it may be a task. The times of a program's are never zero.
	Tasks Tasks
	// Steps are the names of the step functions besides Start, former ones included.
	Steps []string
	Code  Code
}

// NewProgram makes a program of a definition. What is wrong with it is added to p.
func NewProgram(d Definition, p *Problems) *Program {
	t := &Program{Definition: d, Target: d.Name, steps: map[string]bool{StartStep: true}}
	for _, name := range d.Steps {
		t.steps[name] = true
	}
	if d.Annotations != nil {
		var err error
		if t.Annotations, err = jsonv2.Marshal(d.Annotations, schema.JSONOptions); err != nil {
			p.Add(err, "its Annotations cannot be encoded")
		}
	}
	if t.MaxAttempts = cmp.Or(t.MaxAttempts, defaultAttempts); t.MaxAttempts < 0 || t.MaxAttempts > maxAttempts {
		p.Add(nil, "MaxAttempts is %d; it must be from 1 to %d", t.MaxAttempts, maxAttempts)
	}
	if !toolName.MatchString(t.Name) {
		p.Add(nil, "the name must be 1 to 128 characters of A-Z a-z 0-9 _ - .")
	}
	if t.SingleUse > SingleUseNever {
		p.Add(nil, "SingleUse is %d, which it has no value for", t.SingleUse)
	}
	if t.MaxAge < 0 {
		p.Add(nil, "MaxAge is negative")
	}
	t.checkQuestions(p)
	if t.Routes.String() == "" {
		p.Add(nil, "its Routes have none that there is")
	}
	if input := t.inputSchema(p, d.InputSchema, d.RawInputSchema, d.Arguments); input != nil {
		var err error
		if t.input, t.InputSchema, err = schema.Resolve(input, d.RawInputSchema); err != nil {
			p.Add(err, "the input schema is not usable")
		} else if input.Type != "object" {
			p.Add(nil, "the input schema must have the type object; use a struct for the arguments")
		}
	}
	if d.OutputSchema != nil {
		var err error
		if t.output, t.OutputSchema, err = schema.Resolve(d.OutputSchema, nil); err != nil {
			p.Add(err, "the output schema is not usable")
		}
	}
	t.declare(p, d.Effects)
	t.checkTasks(p)
	if t.Yields && t.input != nil && t.input.Schema().Properties[ResumeToken] != nil { // which lists show
		p.Add(nil, "it Yields and has an argument named %q, which is what clients go on with; give the argument another name", ResumeToken)
	}
	return t
}

// toolName is what MCP allows, which is more than [ident.Valid].
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// Names and bounds that the engine uses itself.
const (
	defaultAttempts = 3
	maxAttempts     = 100
)

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

func (t *Program) checkQuestions(p *Problems) {
	t.questions = make(map[string]*question, len(t.Asks))
	for i, q := range t.Asks {
		if v := reflect.ValueOf(q); q == nil || v.Kind() == reflect.Pointer && v.IsNil() {
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
		s, err := q.Step()
		s.ID, s.Params = id, bytes.Clone(s.Params)
		t.questions[id] = &question{q, s, digest(s.Params), err}
		t.outside = t.outside || s.Kind == steps.Outside
	}
	for _, id := range slices.Sorted(maps.Keys(t.questions)) {
		if done := t.questions[id].step.Done; done != "" && !t.Outside(done) {
			p.Add(nil, "the link %q is Done with %q, which is not declared; add it to the tool's Asks", id, done)
		}
	}
}

// RenameQuestions has the present names of questions that had others in older revisions.
func (t *Program) RenameQuestions(p *Problems, renamed map[string]string) {
	for _, old := range slices.Sorted(maps.Keys(renamed)) {
		if now := renamed[old]; t.questions[now] == nil || t.questions[old] != nil {
			p.Add(nil, "Renamed says that question %q is now %q, but the former exists or the latter does not", old, now)
		}
	}
	for old, now := range renamed {
		t.questions[old] = t.questions[now]
	}
	t.renamed = renamed
}

// inputSchema returns the schema of a tool's arguments: the one that the author
// gave, in one of two forms, or the one that follows from the type and its tags. An
// author's own schema must say what the tags say, which would else be ignored. It
// returns nil if there is a problem.
func (t *Program) inputSchema(p *Problems, given *jsonschema.Schema, raw json.RawMessage, args reflect.Type) *jsonschema.Schema {
	if given != nil && raw != nil {
		p.Add(nil, "it has both an InputSchema and a RawInputSchema")
		return nil
	}
	if raw != nil {
		var err error
		if given, err = schema.Parse(raw); err != nil {
			p.Add(err, "the RawInputSchema is not usable")
			return nil
		}
	}
	s, decoding, err := schema.ForTool(args, given)
	if err != nil {
		p.Add(err, "no input schema can be made from the type %v of the arguments", args)
		return nil
	}
	t.decoding = decoding
	return s
}

func (t *Program) declare(p *Problems, effects []Effect) {
	t.effects = make(map[string]Effect, len(effects))
	for i, e := range effects {
		if e == nil {
			p.Add(nil, "Effects[%d] is nil", i)
			continue
		}
		d := e.Declaration()
		switch {
		case d.Problem != "":
			p.Add(nil, "Effects[%d] (%q) %s", i, d.Name, d.Problem)
			continue
		case t.effects[d.Name] != nil:
			p.Add(nil, "two effects have the name %q", d.Name)
			continue
		}
		if d.Unrecordable != nil {
			p.Add(d.Unrecordable, "effect %q cannot be recorded", d.Name)
		}
		t.effects[d.Name] = e
	}
	t.buildsOn = make(map[string][]string)
	for _, e := range effects {
		if e != nil && t.effects[e.Declaration().Name] == e {
			t.checkBuildsOn(p, e.Declaration())
		}
	}
}

// checkBuildsOn finds out what an effect builds on, also by way of others.
func (t *Program) checkBuildsOn(p *Problems, d Declaration) {
	var all []string
	var visit func(d Declaration)
	visit = func(by Declaration) {
		for _, on := range by.BuildsOn {
			e := t.effects[on.Name]
			switch {
			case e == nil || e.Declaration().Self != on.Self:
				if by.Name == d.Name { // the others are reported by themselves
					p.Add(nil, "effect %q builds on %q, which is not declared; add it to the tool's Effects", d.Name, on.Name)
				}
			case on.Name == d.Name:
				p.Add(nil, "effect %q builds on itself", d.Name)
			case !slices.Contains(all, on.Name):
				all = append(all, on.Name)
				visit(e.Declaration())
			}
		}
	}
	visit(d)
	t.buildsOn[d.Name] = all
}

// DefinitionError says what is wrong with a tool's definition. It is returned
// when the tool is registered. If several things are wrong, there is one for each,
// joined as by [errors.Join].
type DefinitionError struct {
	// Tool is the tool's name, which may be what is wrong.
	Tool string
	// Problem says what is wrong and what to do.
	Problem string
	// Err is the cause, or nil.
	Err error
}

// Error implements error.
func (e *DefinitionError) Error() string {
	s := fmt.Sprintf("tool %q: %s", e.Tool, e.Problem)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return strings.ReplaceAll(s, "\n", "; ") // a line for each problem
}

// Unwrap returns the cause.
func (e *DefinitionError) Unwrap() error { return e.Err }
