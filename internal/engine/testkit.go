package engine

import (
	"context"
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Stage makes a position by hand, so that a test can begin in the middle of a
// saga. It is for package sagatest.
func (t *Program) Stage(s sagahooks.Stage) (*Position, error) {
	if !t.steps[s.Step] || s.Step == StartStep {
		return nil, fmt.Errorf("tool %q has no step function %q", t.Name, s.Step)
	}
	state, secrets, err := t.code.Stage(s.State)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", t.Name, err)
	}
	p := &Position{ID: s.ID, Turn: 1, Tool: t.Name, Revision: t.Revision, secrets: secrets}
	p.body = body{next: s.Step, args: s.Arguments, kept: state, apart: true, pending: make([]pendingStep, len(s.Answers))}
	for i, a := range s.Answers {
		q := t.questions[ident.Base(a.StepID)]
		if q == nil {
			return nil, fmt.Errorf("tool %q has no question %q", t.Name, a.StepID)
		}
		// As the question is declared, the answer can be checked. How it was asked
		// is not known: what With would have supplied may be missing.
		if q.err == nil && a.Error == nil {
			if err := q.Check(q.step, a.Result); err != nil {
				return nil, err
			}
		}
		stored, err := store(a)
		if err != nil {
			return nil, err
		}
		p.pending[i] = pendingStep{id: a.StepID, params: json.RawMessage("{}"), answer: stored}
	}
	for _, e := range s.Effects {
		d := t.effects[e.Effect]
		if d == nil {
			return nil, fmt.Errorf("tool %q has no effect %q", t.Name, e.Effect)
		}
		in, out, err := d.Stage(e)
		if err != nil {
			return nil, fmt.Errorf("tool %q, effect %q: %w", t.Name, e.Effect, err)
		}
		if p.log == nil {
			p.log = new(effectLog)
		}
		p.log.records = append(p.log.records, &EffectRecord{
			name: e.Effect, n: p.log.count(e.Effect), status: effectDone, In: in, Out: out,
		})
	}
	return p, nil
}

// Rehearse performs again, in the world of a test, the effects that a position
// says were begun. It is for package sagatest.
func (t *Program) Rehearse(ctx context.Context, pos *Position) error {
	if pos.log == nil {
		return nil
	}
	for _, r := range pos.log.records {
		e := t.effects[r.name]
		if e == nil || r.status == effectRefused || r.status == effectRefusedAgain {
			continue
		}
		if err := e.Redo(ctx, effectKey(pos.ID, r.name, r.n), r); err != nil {
			return fmt.Errorf("effect %q: %w", r.name, err)
		}
	}
	return nil
}

// Decoded says what a suspended saga's state and effects decode to in the present code, so
// that a test can tell whether that is what was once meant. It is for package sagatest.
func (t *Program) Decoded(pos *Position) (json.RawMessage, error) {
	if err := t.current(pos); err != nil {
		return nil, &PositionError{t.Name, err}
	}
	state, err := t.code.Decoded(pos.Revision, pos.kept, pos.secrets)
	if err != nil {
		return nil, &PositionError{t.Name, fmt.Errorf("its state: %w", err)}
	}
	type decodedEffect struct {
		Effect string          `json:"effect"`
		Input  json.RawMessage `json:"input"`
		Result json.RawMessage `json:"result,omitempty"`
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
