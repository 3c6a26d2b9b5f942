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
func (t *Program) settle(ctx context.Context, pos *Position, p *pendingStep, fresh bool, c *Call) (step steps.Step, open bool, end *Outcome, err error) {
	q, step, words, err := t.pendingQuestion(p)
	switch {
	case err != nil:
		return step, false, nil, &PositionError{t.Name, err}
	case p.outside() && p.answer != nil && !t.forOthers(p.id):
		return step, false, nil, nil // it was looked at when it came, and has no words; see [Program.CheckEvent]
	case words != p.digest && !(c.again && p.answer != nil): // else it may have acted on the answer
		// The tool asks something else now than the user answered, or would.
		p.digest = words
	case p.answer == nil:
		return step, true, nil, nil
	case !fresh || p.answer.failed || words != p.digest: // what other words asked for, it was good for
		return step, false, nil, nil
	default:
		err := Protect(func() error { return q.Check(step, p.answer.raw) }) // the type of the answer may read itself
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
		if p.refused++; p.refused >= t.MaxAttempts {
			end, err = t.refusedTooOften(ctx, pos, p, invalid, c)
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
		if p.answer = nil; p.outside() { // others have as long for these words
			p.until = c.present().Add(within(&step)).Round(0).UTC()
		}
	}
	p.repeat++
	step.ID = p.stepID()
	return step, true, nil, nil
}

// pendingQuestion is the question that a step waits for, and how that is asked now, in words of which it returns
// the digest.
func (t *Program) pendingQuestion(p *pendingStep) (q *question, step steps.Step, words [4]byte, err error) {
	q = t.questions[ident.Base(p.id)]
	switch {
	case q == nil:
		return nil, step, words, fmt.Errorf("there is no question %q", p.id)
	case p.params != nil:
		step, words = steps.Step{Kind: p.kind, Needs: p.needs, Params: p.params, Varied: true}, p.digest
	case q.err != nil:
		return nil, step, words, fmt.Errorf("question %q: %w", p.id, q.err)
	default:
		step, words = q.step, q.words
	}
	step.ID = p.stepID()
	return q, step, words, nil
}

// CheckAnswers fails with an *[AnswerError] if [Program.Resume] could not read answers to what
// is waited for at pos. Whether they are valid is for Resume to say: it asks again if not. It
// fails with a *[PositionError] if the position is not one of this tool.
func (t *Program) CheckAnswers(pos *Position, answers []steps.Answer) error {
	if err := t.current(pos); err != nil {
		return &PositionError{t.Name, err}
	}
	now := *pos
	fresh, err := now.accept(answers)
	if err != nil {
		return err
	}
	for i := range now.pending {
		p := &now.pending[i]
		q, step, _, err := t.pendingQuestion(p)
		if err != nil || !fresh[i] || p.answer.failed {
			continue // Resume says so
		}
		var malformed *checkerr.MalformedError
		if err := Protect(func() error { return q.Check(step, p.answer.raw) }); errors.As(err, &malformed) {
			return &AnswerError{step.ID, malformed.Reason}
		}
	}
	return nil
}

// refusedTooOften ends a saga whose user gives no valid answer.
func (t *Program) refusedTooOften(ctx context.Context, pos *Position, p *pendingStep, invalid *checkerr.InvalidError, c *Call) (*Outcome, error) {
	text := fmt.Sprintf("Stopped: %q was answered %d times without a valid answer; the last time: %s", p.id, p.refused, invalid.Reason)
	if t.Kind != KindTool {
		return nil, &ToolError{Text: text, Disclosed: true}
	}
	out := &Outcome{Result: errorResult(text)}
	undo, err := t.compensate(ctx, c, t.logOf(pos), out)
	if err != nil {
		return nil, err
	}
	out.addUndo(undo)
	return out, nil
}
