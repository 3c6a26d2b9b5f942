package saga

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// Stage makes a position by hand, so that a test can begin in the middle of a
// saga. It is for package sagatest, and cannot be called from outside this module.
func (t *Tool) Stage(s sagahooks.Stage) (*Position, error) {
	if !t.program.has(s.Step) || s.Step == startStep {
		return nil, fmt.Errorf("tool %q has no step function %q", t.Name, s.Step)
	}
	state, secrets, err := t.program.stage(s.State)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", t.Name, err)
	}
	p := &Position{ID: s.ID, Turn: 1, Tool: t.Name, Revision: t.Revision, secrets: secrets}
	p.body = body{next: s.Step, args: s.Arguments, state: state, pending: make([]pendingStep, len(s.Answers))}
	for i, a := range s.Answers {
		q := t.question(a.StepID)
		if q == nil {
			return nil, fmt.Errorf("tool %q has no question %q", t.Name, a.StepID)
		}
		// As the question is declared, the answer can be checked. How it was asked
		// is not known: what With would have supplied may be missing.
		if step, err := q.Step(); err == nil && a.Error == nil {
			if err := q.Check(step, a.Result); err != nil {
				return nil, err
			}
		}
		stored, err := store(a)
		if err != nil {
			return nil, err
		}
		p.pending[i] = pendingStep{id: a.StepID, params: json.RawMessage("{}"), answer: &stored}
	}
	for _, e := range s.Effects {
		d := t.effects[e.Effect]
		if d == nil {
			return nil, fmt.Errorf("tool %q has no effect %q", t.Name, e.Effect)
		}
		in, out, err := d.stage(d, e)
		if err != nil {
			return nil, fmt.Errorf("tool %q, effect %q: %w", t.Name, e.Effect, err)
		}
		if p.log == nil {
			p.log = new(effectLog)
		}
		p.log.records = append(p.log.records, &effectRecord{
			name: e.Effect, n: p.log.count(e.Effect), status: effectDone, in: in, out: out,
		})
	}
	return p, nil
}

// stage encodes a state that a test supplies.
func (p *machineProgram[Args, State]) stage(state any) (encoded, secrets []byte, err error) {
	t := &Turn[Args, State]{}
	switch s := state.(type) {
	case nil:
	case State:
		t.State = s
	case *State:
		t.State = *s
	default:
		return nil, nil, fmt.Errorf("the given state is a %T, but the tool's is a %T", state, t.State)
	}
	r, err := p.suspended(t, startStep, nil)
	return r.state, r.secrets, err
}

func (p *flowProgram[Args, Out]) stage(any) (encoded, secrets []byte, err error) {
	return nil, nil, errors.New("a flow has no step functions and no state")
}

// Rehearse performs again, in the world of a test, the effects that a position
// says were begun. It is for package sagatest, and cannot be called from outside
// this module.
func (t *Tool) Rehearse(ctx context.Context, pos *Position, _ sagahooks.Rehearsal) error {
	if pos.log == nil {
		return nil
	}
	for _, r := range pos.log.records {
		e := t.effects[r.name]
		if e == nil || r.status == effectRefused {
			continue
		}
		if err := e.redo(ctx, effectKey(pos.ID, r.name, r.n), e, r); err != nil {
			return fmt.Errorf("effect %q: %w", r.name, err)
		}
	}
	return nil
}

func (e *Effect[In, Out]) redo(ctx context.Context, key Key, d *declaredEffect, r *effectRecord) error {
	in, _, err := e.read(d, r)
	if err != nil {
		return err
	}
	_, err = e.Do(ctx, key, in)
	return err
}

func (e *Effect[In, Out]) stage(d *declaredEffect, p sagahooks.Performed) (input, result sagahooks.Value, err error) {
	in, err := adopt[In](p.Input)
	if err != nil {
		return input, result, fmt.Errorf("its input: %w", err)
	}
	out, err := adopt[Out](p.Output)
	if err != nil {
		return input, result, fmt.Errorf("its result: %w", err)
	}
	if input, err = encodeValue(d.in, &in); err != nil {
		return input, result, fmt.Errorf("its input: %w", err)
	}
	result, err = encodeValue(d.out, &out)
	return input, result, err
}
