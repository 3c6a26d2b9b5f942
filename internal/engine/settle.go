package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

// settle decides what becomes of a pending step: nothing more (its answer is
// good), the step to ask (again) if it is open, or the end of the saga.
func (t *Program) settle(ctx context.Context, pos *Position, p *pendingStep, fresh bool, r *Resumption) (step steps.Step, open bool, end *Outcome, err error) {
	q := t.questions[ident.Base(p.id)]
	if q == nil {
		return step, false, nil, &PositionError{t.Name, fmt.Errorf("there is no question %q", p.id)}
	}
	words := p.digest
	switch {
	case p.params != nil:
		step = steps.Step{Kind: p.kind, Needs: p.needs, Params: p.params, Varied: true}
	case q.err != nil:
		return step, false, nil, &PositionError{t.Name, fmt.Errorf("question %q: %w", p.id, q.err)}
	default:
		step, words = q.step, q.digest
	}
	step.ID = p.stepID()
	switch {
	case words != p.digest:
		// The tool asks something else now than the user answered, or would.
		p.digest = words
	case p.answer == nil:
		return step, true, nil, nil
	case !fresh || p.answer.failed:
		return step, false, nil, nil
	default:
		err := q.Check(step, p.answer.raw)
		if err == nil {
			return step, false, nil, nil
		}
		var invalid *checkerr.InvalidError
		if !errors.As(err, &invalid) {
			if malformed := (*checkerr.MalformedError)(nil); errors.As(err, &malformed) {
				err = &AnswerError{step.ID, malformed.Reason}
			}
			return step, false, nil, err
		}
		if p.refused++; p.refused >= t.maxAttempts {
			end, err = t.refusedTooOften(ctx, pos, p, invalid, r)
			return step, false, end, err
		}
		if step, err = step.Again(invalid.Reason); err != nil {
			return step, false, nil, &PositionError{t.Name, err}
		}
		p.kind, p.needs, p.params = step.Kind, step.Needs, step.Params
	}
	// The answer is remembered, and the question gets a new id.
	if p.answer != nil {
		f, err := fingerprintOf(stepTag(pos.ID, p.stepID()), pos.ID, p.answer)
		if err != nil {
			return step, false, nil, &AnswerError{p.stepID(), err.Error()}
		}
		pos.seen = append(pos.seen, f)
		p.answer = nil
	}
	p.repeat++
	step.ID = p.stepID()
	return step, true, nil, nil
}

// refusedTooOften ends a saga whose user gives no valid answer.
func (t *Program) refusedTooOften(ctx context.Context, pos *Position, p *pendingStep, invalid *checkerr.InvalidError, r *Resumption) (*Outcome, error) {
	text := fmt.Sprintf("Stopped: %q was answered %d times without a valid answer; the last time: %s", p.id, p.refused, invalid.Reason)
	u := Undoing{Outcome: &Outcome{Result: errorResult(text)}}
	if t.Kind != KindTool {
		u = Undoing{Err: &ToolError{Text: text, Disclosed: true}}
	}
	undo, err := t.compensate(ctx, pos.ID, t.logOf(pos), fence{acting: r.Acting, undoing: r.Undoing, end: u})
	if err != nil {
		return nil, err
	}
	return u.end(undo)
}
