package saga

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Steps are the step functions that get answers, by name: 1 to 64 characters of
// A-Z a-z 0-9 _ - . : / . A name is part of suspended sagas: renaming one needs a
// new revision of the tool.
//
// A step function runs from one suspension to the next, or to the end. It must not
// keep t, and must not wait for the client.
type Steps[Args, State any] map[string]func(t *Turn[Args, State]) (Next, error)

// Machine is a tool written as a step machine: explicit functions that hand on
// a typed state. Args and State must be types that encode to JSON; Args must be
// a struct (or a map), as its schema is the tool's input schema. The tags of its
// fields are those of forms, and more: enum, minimum, format, pattern, default and
// others are in the schema and enforced, or refused when the tool is registered. A
// field tagged header:"Region" is one that clients repeat in the HTTP header
// Mcp-Param-Region, for proxies that route requests without reading them.
//
// See the package documentation for how to write one.
type Machine[Args, State any] struct {
	Info
	// Start begins the saga. It is a step function like those in Steps.
	Start func(t *Turn[Args, State]) (Next, error)
	// Steps are the functions that get answers.
	Steps Steps[Args, State]
	// Upgrades make states of older revisions into the present one, by revision.
	// See [From].
	Upgrades map[uint32]Upgrade[State]
	// Encoding encodes the state; nil means JSON.
	Encoding Encoding
	// OutputSchema describes the structured result, if the tool has one; see
	// [SchemaFor].
	OutputSchema *jsonschema.Schema
}

// maxHops bounds the step functions that run in one turn: more is a loop.
const maxHops = 1000

// Compile implements [Definition].
func (m Machine[Args, State]) Compile() (*engine.Program, error) {
	p := &engine.Problems{Tool: m.Name}
	if m.Encoding == nil {
		m.Encoding = jsonEncoding{}
	}
	state := reflect.TypeFor[State]()
	secrets, err := checkKept(state, m.Encoding, "the state")
	plain := m.Encoding == Encoding(jsonEncoding{}) && state.Kind() == reflect.Struct && !encodesItself(state)
	d := m.definition()
	d.Arguments, d.OutputSchema, d.Code = reflect.TypeFor[Args](), m.OutputSchema, &machineCode[Args, State]{m, secrets, plain}
	d.Steps = slices.AppendSeq(slices.Collect(maps.Keys(m.Steps)), maps.Keys(m.Renamed))
	t := engine.NewProgram(d, p)
	checkArguments(d.Arguments, p)
	m.check(p)
	if err != nil {
		p.Add(err, "the state type %v cannot be kept between turns", state)
	}
	return t, p.Err()
}

// check looks at what a machine has and other definitions have not.
func (m *Machine[Args, State]) check(p *engine.Problems) {
	if m.Start == nil {
		p.Add(nil, "Start is nil")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Steps)) {
		switch {
		case name == engine.StartStep:
			p.Add(nil, "a step function cannot be named %q", name)
		case !ident.Valid(name):
			p.Add(nil, "a step function cannot be named %q; a name is %s", name, ident.Rule)
		case m.Steps[name] == nil:
			p.Add(nil, "step function %q is nil", name)
		}
	}
	if len(m.Asks) > 0 && len(m.Steps) == 0 {
		p.Add(nil, "it has Asks but no Steps that could get the answers")
	}
	for _, old := range slices.Sorted(maps.Keys(m.Renamed)) {
		if now := m.Renamed[old]; m.Steps[now] == nil || m.Steps[old] != nil {
			p.Add(nil, "Renamed says that %q is now %q, but the former exists or the latter does not", old, now)
		}
	}
	for _, revision := range slices.Sorted(maps.Keys(m.Upgrades)) {
		if revision >= m.Revision {
			p.Add(nil, "Upgrades has revision %d, which is not older than %d", revision, m.Revision)
		}
	}
}

type machineCode[Args, State any] struct {
	Machine[Args, State]
	secrets []secretField
	plain   bool // The state is a struct, encoded field by field as JSON.
}

func (p *machineCode[Args, State]) Reads(revision uint32) bool {
	return p.Upgrades[revision] != nil
}

// read decodes a state, of an older revision if need be. What the present revision
// wrote must have its place in the type, or it would be lost.
func (p *machineCode[Args, State]) read(revision uint32, encoded, secrets []byte, into *State) (err error) {
	unmarshal := p.Encoding.Unmarshal
	if e, ok := p.Encoding.(strict); ok {
		unmarshal = e.UnmarshalStrict
	}
	older := revision != p.Revision
	switch {
	case older:
		*into, err = p.Upgrades[revision](p.Encoding, encoded, secrets)
	case !p.plain || len(encoded) > 0: // nothing is the zero value of a struct
		err = decodeKept(unmarshal, encoded, into)
	}
	if err != nil || len(secrets) == 0 {
		return err
	}
	before, state := reflect.ValueOf(*into), reflect.ValueOf(into).Elem()
	err = scatter(p.secrets, state, secrets)
	for _, f := range p.secrets {
		if was := before.FieldByIndex(f.index); older && !was.IsZero() { // those that the upgrade has set stay
			state.FieldByIndex(f.index).Set(was)
		}
	}
	if lost := (*lostSecretError)(nil); older && errors.As(err, &lost) {
		return nil // the upgrade could see it
	}
	return err
}

func (p *machineCode[Args, State]) Run(turn *engine.Turn, args json.RawMessage, state, secrets []byte) (engine.Ended, error) {
	fail := func(err error) (engine.Ended, error) {
		return engine.Ended{}, &engine.StepFailure{Tool: p.Name, Step: turn.Step, Err: err}
	}
	t := &Turn[Args, State]{working: working{turn.Context, turn}}
	if err := turn.DecodeArguments(args, &t.Args); err != nil {
		return fail(err)
	}
	if turn.Step != engine.StartStep || len(state) > 0 || len(secrets) > 0 {
		if err := p.read(turn.Written, state, secrets, &t.State); err != nil {
			return engine.Ended{}, &engine.PositionError{Tool: p.Name, Err: fmt.Errorf("its state: %w", err)}
		}
	}
	for range maxHops {
		if now := p.Renamed[turn.Step]; now != "" {
			turn.At(now)
		}
		f := p.Start
		if turn.Step != engine.StartStep {
			f = p.Steps[turn.Step]
		}
		next, err := f(t)
		if err == nil {
			err = turn.StepEnded()
		}
		if err != nil {
			return fail(err)
		}
		switch next := next.(type) {
		case gone:
			if err := turn.Goto(next.step, func() (engine.Ended, error) { return p.encode(&t.State) }); err != nil {
				return fail(err)
			}
		case finished:
			return engine.Ended{Outcome: next.outcome}, nil
		case *asked:
			ended, err := p.encode(&t.State)
			if err != nil {
				return fail(err)
			}
			ended.Asked = (*engine.Asked)(next)
			return ended, nil
		default:
			return fail(errors.New("it returned neither what to do next nor an error; end it with Ask, Goto, Textf or another method of the Turn that returns a Next"))
		}
	}
	return fail(fmt.Errorf("%d step functions ran in one turn: Goto runs in a circle", maxHops))
}

// encode returns what a turn that asks leaves for the next one. A struct without a value is not kept:
// nothing is read as the same. For any other type, such as a pointer, {} is not the zero value.
func (p *machineCode[Args, State]) encode(state *State) (engine.Ended, error) {
	encoded, err := p.Encoding.Marshal(state)
	if err != nil {
		return engine.Ended{}, fmt.Errorf("the state cannot be encoded: %w", err)
	}
	if p.plain && string(encoded) == "{}" {
		encoded = nil
	}
	ended := engine.Ended{Kept: encoded, Apart: true}
	if len(p.secrets) > 0 {
		ended.Secrets = gather(p.secrets, reflect.ValueOf(state).Elem())
	}
	return ended, nil
}

// Stage encodes a state that a test supplies.
func (p *machineCode[Args, State]) Stage(state any) (encoded, secrets []byte, err error) {
	var own State
	switch s := state.(type) {
	case nil:
	case State:
		own = s
	case *State:
		own = *s
	default:
		return nil, nil, fmt.Errorf("the given state is a %T, but the tool's is a %T", state, own)
	}
	ended, err := p.encode(&own)
	return ended.Kept, ended.Secrets, err
}

// Upgrade turns an encoded state of an older revision, and its secrets, into the
// present one. Make it with [From].
type Upgrade[State any] func(e Encoding, encoded, secrets []byte) (State, error)

// From returns an upgrade from the type that the state had in an older revision:
//
//	Upgrades: map[uint32]saga.Upgrade[state]{
//		1: saga.From(func(old stateV1) (state, error) { return state{Target: old.Where}, nil }),
//	}
//
// Keep the old type in the code for as long as sagas of that revision may be
// under way: the tool's MaxAge, or the time a token lives if it has none. A [Secret]
// of the old type whose field has the same name in the new one, and is empty after the
// upgrade, is kept; every other is for the upgrade to hand on.
func From[Old, State any](upgrade func(Old) (State, error)) Upgrade[State] {
	return func(e Encoding, encoded, secrets []byte) (State, error) {
		var old Old
		if err := decodeKept(e.Unmarshal, encoded, &old); err != nil {
			var none State
			return none, fmt.Errorf("it is not of the type %T: %w", old, err)
		}
		if fields, err := findSecrets(reflect.TypeFor[Old](), "the old state"); err == nil {
			_ = scatter(fields, reflect.ValueOf(&old).Elem(), secrets) // those of which the type knows
		}
		return upgrade(old)
	}
}

// decodeKept decodes what an earlier turn left. Nothing may be what an encoding makes of a value, or the {} of a value
// that earlier releases did not keep: what the encoding cannot read is then the zero value.
func decodeKept[T any](unmarshal func([]byte, any) error, encoded []byte, into *T) error {
	if len(encoded) > 0 {
		return unmarshal(encoded, into)
	}
	var read T
	if unmarshal(encoded, &read) == nil {
		*into = read
	}
	return nil
}

// Encoding turns a state into bytes and back. The default is JSON. It must read
// what earlier versions of it wrote, as long as there are tokens, and must not let
// the data choose the types that it decodes into.
//
// It may have a third method, UnmarshalStrict(data []byte, v any) error, which is
// Unmarshal but fails if data holds what v has no place for, such as a field that was
// renamed. States of the present revision are then read with it. Without it, what such
// a change loses goes unnoticed.
type Encoding interface {
	// Marshal encodes the state that v points to.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into the state that v points to.
	Unmarshal(data []byte, v any) error
}

// strict is an [Encoding] with the third method.
type strict interface {
	UnmarshalStrict(data []byte, v any) error
}

// jsonEncoding encodes states by [schema.JSONOptions].
type jsonEncoding struct{}

func (jsonEncoding) Marshal(v any) ([]byte, error) { return encodeKept(v, keptOptions) }

func (jsonEncoding) Unmarshal(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, schema.JSONOptions)
}

func (jsonEncoding) UnmarshalStrict(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, schema.StrictJSONOptions)
}
