package saga

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// Decoded says what a suspended saga's state and effects decode to in the present code, so
// that a test can tell whether that is what was once meant. It is for package sagatest,
// and cannot be called from outside this module.
func (t *Tool) Decoded(pos *Position, _ sagahooks.Rehearsal) (json.RawMessage, error) {
	if err := t.current(pos); err != nil {
		return nil, &PositionError{t.Name, err}
	}
	state, err := t.program.decoded(pos)
	if err != nil {
		return nil, &PositionError{t.Name, fmt.Errorf("its state: %w", err)}
	}
	if _, err := jsonv2.Marshal(state, jsonOptions, withSecrets); err != nil {
		state = fmt.Sprintf("%+v", state) // its encoding is not JSON
	}
	all := struct {
		State   any             `json:"state,omitempty"`
		Effects []decodedEffect `json:"effects,omitempty"`
	}{State: state}
	for _, r := range t.logOf(pos).records {
		d := t.effects[r.name]
		if d == nil {
			continue
		}
		e := decodedEffect{Effect: r.name}
		if e.Input, e.Result, err = d.decoded(d, r); err != nil {
			return nil, &PositionError{t.Name, fmt.Errorf("effect %q: %w", r.name, err)}
		}
		all.Effects = append(all.Effects, e)
	}
	return jsonv2.Marshal(all, jsonOptions, withSecrets)
}

type decodedEffect struct {
	Effect string `json:"effect"`
	Input  any    `json:"input"`
	Result any    `json:"result,omitempty"`
}

// withSecrets encodes secrets so that they can be told from each other, and not read.
var withSecrets = jsonv2.WithMarshalers(jsonv2.JoinMarshalers(
	jsonv2.MarshalFunc(func(s Secret) ([]byte, error) {
		if s.IsZero() {
			return json.Marshal("")
		}
		sum := sha256.Sum256([]byte(s.value))
		return json.Marshal(fmt.Sprintf("[secret %x]", sum[:4]))
	}),
	jsonv2.MarshalToFunc(writeNumber),
))

func (p *machineProgram[Args, State]) decoded(pos *Position) (any, error) {
	var state State
	return &state, p.read(pos.Revision, pos.kept(), pos.secrets, &state)
}

// decoded is nothing: all that a flow keeps itself are answers.
func (p *flowProgram[Args, Out]) decoded(*Position) (any, error) { return nil, nil }

func (e *Effect[In, Out]) decoded(d *declaredEffect, r *effectRecord) (input, result any, err error) {
	in, out, err := e.read(d, r)
	if r.status != effectDone {
		return &in, nil, err
	}
	return &in, &out, err
}
