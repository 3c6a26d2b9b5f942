package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Kind says what a saga is to MCP.
type Kind uint8

// The kinds of sagas.
const (
	// KindTool is called by models: tools/call.
	KindTool Kind = iota
	// KindPrompt is chosen by users: prompts/get.
	KindPrompt
	// KindResource is read by applications: resources/read.
	KindResource
)

// String returns "tool", "prompt" or "resource".
func (k Kind) String() string { return [...]string{"tool", "prompt", "resource"}[k] }

// Program is a tool, a prompt or a resource that has passed all checks. It is
// immutable but for what hangs (within.go), and safe for concurrent use; it holds nothing of any saga.
type Program struct {
	Definition
	// Kind says which of the three it is.
	Kind Kind
	// Target names it among those of all kinds, as tokens and records do: a tool by its name
	// alone, which holds no colon, the others with their kind before it.
	Target string
	// InputSchema and OutputSchema are JSON Schemas; OutputSchema may be nil.
	InputSchema, OutputSchema json.RawMessage
	// Annotations are hints for clients, MCP's ToolAnnotations, or nil.
	Annotations json.RawMessage

	// Arguments are those of a prompt, in the order of their fields; Resource is what a resource has besides its name.
	Arguments []PromptArgument
	Resource  *ResourceInfo
	// Complete suggests values for arguments of prompts and resources, by name.
	Complete map[string]completer

	steps     map[string]bool      // the names of step functions, former ones included
	questions map[string]*question // also by the ids that they had in older revisions
	effects   map[string]Effect
	buildsOn  map[string][]string // what effects build on, also indirectly
	renamed   map[string]string   // questions of older revisions
	outside   bool                // it asks for events
	input     *schema.Schema
	output    *schema.Schema
	decoding  jsonv2.Options // of arguments

	hanging      atomic.Int32                // calls of its code
	undosHanging atomic.Int32                // and of its effects' Undos
	onHang       *atomic.Pointer[func(Hang)] // of its registry; nil if it is in none
}

// SingleUse says whether each turn of a saga is taken once, for which a server has to
// remember it. Its values are those of package saga.
type SingleUse uint8

// The values of [SingleUse].
const (
	// SingleUseOfEffects is for programs with effects, where the server can.
	SingleUseOfEffects SingleUse = iota
	// SingleUseRequired: no server runs the program that cannot.
	SingleUseRequired
	// SingleUseNever: every turn may be taken any number of times.
	SingleUseNever
)

// Remembered reports whether a server that can remember turns is to remember this program's.
func (t *Program) Remembered() bool {
	return t.SingleUse == SingleUseRequired || t.SingleUse == SingleUseOfEffects && len(t.effects) > 0
}

// Acts reports whether the program has effects.
func (t *Program) Acts() bool { return len(t.effects) > 0 }

// Irreversible names an irreversible effect of the program, or returns "".
func (t *Program) Irreversible() string {
	for _, name := range slices.Sorted(maps.Keys(t.effects)) {
		if t.effects[name].Declaration().Irreversible {
			return name
		}
	}
	return ""
}

// Code is the author's part of a program: a machine's step functions, or a flow. Its
// types are known behind it only.
type Code interface {
	// Reads reports whether positions of that other revision can be resumed.
	Reads(revision uint32) bool
	// Run runs step functions, t.Step first, until one ends the turn. kept and secrets are what the
	// last turn left in [Ended].
	Run(t *Turn, args json.RawMessage, kept, secrets []byte) (Ended, error)
	// Stage encodes a state that a test supplies.
	Stage(state any) (encoded, secrets []byte, err error)
}

// Ended is how a turn's code ended: with questions or with a result.
type Ended struct {
	// Asked are the questions; nil if the saga has ended.
	Asked *Asked
	// Outcome is the result.
	Outcome Outcome
	// Kept and Secrets are for the next turn. Apart says that Kept is a state, not a record
	// of what the client sent.
	Kept, Secrets []byte
	Apart         bool
	// Reworded are as in [Outcome].
	Reworded []string
}

// Asked are questions that end a turn. Without any, the turn is only a pause.
type Asked struct {
	// Next is the step function that gets the answers.
	Next string
	// Steps are the questions, as they are put to this client.
	Steps []steps.Step
	// Yielded and Wake are why a turn pauses, as in [Outcome] and [Position]; both may be
	// missing.
	Yielded content.Blocks
	Wake    time.Time
}

// StartStep is the name of the step function that begins a saga.
const StartStep = "start"

// current reports why a position cannot be resumed by this tool, or nil.
func (t *Program) current(pos *Position) error {
	switch {
	case pos.Tool != t.Name:
		return fmt.Errorf("it belongs to the tool %q", pos.Tool)
	case pos.Revision != t.Revision && !t.Code.Reads(pos.Revision):
		return fmt.Errorf("it belongs to revision %d", pos.Revision)
	case !t.steps[pos.next]:
		return fmt.Errorf("there is no step function %q", pos.next)
	}
	return nil
}

// present returns the name that a question of an older revision has now.
func (t *Program) present(id string) string {
	base := ident.Base(id)
	return cmp.Or(t.renamed[base], base) + id[len(base):]
}

// question is a question and what it asks as it is declared, which is worked out once.
type question struct {
	steps.Question
	step  steps.Step
	words [4]byte // their digest
	err   error   // why it cannot be asked as it is declared: With has to supply something
}

// Registry is a set of tools, prompts and resources, in the order they were given.
// Of each, there may be several revisions: the newest is listed and called, the
// others end the sagas that they began.
type Registry struct {
	list [3][]*Program
	// byTarget has the revisions of each, the newest first.
	byTarget map[string][]*Program
	onHang   atomic.Pointer[func(Hang)]
}

// Compiler is a definition as its author writes it: saga.Definition.
type Compiler = interface{ Compile() (*Program, error) }

// NewRegistry checks the definitions and collects the programs. If some are wrong, or two
// of a kind have the same name and revision, it fails with a *[DefinitionError] for
// each problem, joined: all are found at once, and the text has a line for each.
func NewRegistry(definitions ...Compiler) (*Registry, error) {
	set := &Registry{byTarget: make(map[string][]*Program)}
	var p Problems
	for i, d := range definitions {
		if d == nil {
			p.Add(nil, "definition %d is nil", i)
			continue
		}
		t, err := d.Compile()
		if err == nil {
			err = set.add(t)
		}
		if err != nil {
			p.list = append(p.list, err)
		}
	}
	return set, p.Err()
}

func (s *Registry) add(t *Program) error {
	revisions := s.byTarget[t.Target]
	if slices.ContainsFunc(revisions, func(other *Program) bool { return other.Revision == t.Revision }) {
		return &DefinitionError{Tool: t.Name, Problem: fmt.Sprintf("two %vs have this name and the revision %d", t.Kind, t.Revision)}
	}
	if revisions == nil {
		s.list[t.Kind] = append(s.list[t.Kind], t)
	} else if newest := revisions[0]; newest.Revision < t.Revision {
		i := slices.Index(s.list[t.Kind], newest)
		s.list[t.Kind][i] = t
	}
	t.onHang = &s.onHang
	revisions = append(revisions, t)
	slices.SortFunc(revisions, func(a, b *Program) int { return cmp.Compare(b.Revision, a.Revision) })
	s.byTarget[t.Target] = revisions
	return nil
}

// Find returns the newest revision of the tool, prompt or resource with the
// given name, or nil.
func (s *Registry) Find(kind Kind, name string) *Program {
	if revisions := s.byTarget[target(kind, name)]; revisions != nil {
		return revisions[0]
	}
	return nil
}

// Revisions returns the revisions of the tool, prompt or resource with the given name, the
// newest first. Do not change it.
func (s *Registry) Revisions(kind Kind, name string) []*Program {
	return s.byTarget[target(kind, name)]
}

// target is [Program.Target].
func target(kind Kind, name string) string {
	if kind == KindTool {
		return name
	}
	return kind.String() + ":" + name
}

// Reader returns the revision of a [Program.Target] that can go on from positions of the given
// one: that revision itself, or else the newest that reads it. Both that and the newest of all
// are nil if there is none.
func (s *Registry) Reader(target string, revision uint32) (reader, newest *Program) {
	for _, t := range s.byTarget[target] {
		newest = cmp.Or(newest, t)
		switch {
		case t.Revision == revision:
			return t, newest
		case reader == nil && t.Code.Reads(revision):
			reader = t
		}
	}
	return reader, newest
}

// Of returns all of a kind in the order they were given. Do not change it.
func (s *Registry) Of(kind Kind) []*Program { return s.list[kind] }

// At returns the resource at a URI and the variables of its template. A resource
// with that very URI goes before those with a template.
func (s *Registry) At(uri string) (t *Program, variables map[string]string) {
	var found *Program
	for _, t := range s.list[KindResource] {
		v, ok := t.Resource.Match(uri)
		switch {
		case ok && !t.Resource.Template:
			return t, nil
		case ok && found == nil:
			found, variables = t, v
		}
	}
	return found, variables
}

// Serves reports whether there is a resource at a URI.
func (s *Registry) Serves(uri string) bool {
	t, _ := s.At(uri)
	return t != nil
}
