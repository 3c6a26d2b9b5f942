package engine

import (
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Decoded says what a suspended saga's state and effects decode to in the present code, so
// that a test can tell whether that is what was once meant. It is for package sagatest,
// and cannot be called from outside this module.
func (t *Program) Decoded(pos *Position, _ sagahooks.Rehearsal) (json.RawMessage, error) {
	if err := t.current(pos); err != nil {
		return nil, &PositionError{t.Name, err}
	}
	state, err := t.code.Decoded(pos.Revision, pos.kept(), pos.secrets)
	if err != nil {
		return nil, &PositionError{t.Name, fmt.Errorf("its state: %w", err)}
	}
	all := struct {
		State   json.RawMessage `json:"state,omitempty"`
		Effects []decodedEffect `json:"effects,omitempty"`
	}{State: state}
	for _, r := range t.logOf(pos).records {
		d := t.effects[r.name]
		if d == nil {
			continue
		}
		e := decodedEffect{Effect: r.name}
		if e.Input, e.Result, err = d.Decoded(r); err != nil {
			return nil, &PositionError{t.Name, fmt.Errorf("effect %q: %w", r.name, err)}
		}
		all.Effects = append(all.Effects, e)
	}
	return jsonv2.Marshal(all, schema.JSONOptions)
}

type decodedEffect struct {
	Effect string          `json:"effect"`
	Input  json.RawMessage `json:"input"`
	Result json.RawMessage `json:"result,omitempty"`
}
