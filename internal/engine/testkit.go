package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// Stage makes a position by hand, so that a test can begin in the middle of a
// saga. It is for package sagatest.
func (t *Program) Stage(s sagahooks.Stage) (*Position, error) {
	if !t.steps[s.Step] || s.Step == StartStep {
		return nil, fmt.Errorf("tool %q has no step function %q", t.Name, s.Step)
	}
	state, secrets, err := t.Code.Stage(s.State)
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
		p.pending[i] = pendingStep{id: a.StepID, params: json.RawMessage("{}"), answer: store(a)}
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
		p.log.records = append(p.log.records, &EffectRecord{
			name: e.Effect, n: p.log.count(e.Effect), status: effectDone, In: in, Out: out,
		})
	}
	return p, nil
}

// Rehearse performs again, in the world of a test, the effects that a position
// says were begun. It is for package sagatest.
func (t *Program) Rehearse(ctx context.Context, pos *Position) error {
	for _, r := range pos.log.records {
		e := t.effects[r.name]
		if e == nil || r.status == effectRefused || r.status == effectRefusedAgain {
			continue
		}
		if err := e.Redo(ctx, effectKey(pos.ID, r.name, r.n), r, nil); err != nil {
			return fmt.Errorf("effect %q: %w", r.name, err)
		}
	}
	return nil
}
