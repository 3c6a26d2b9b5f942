package engine

import (
	"errors"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

// CheckAnswers fails with an *[AnswerError] if [Program.Resume] could not read answers to what
// is waited for at pos. Whether they are valid is for Resume to say: it asks again if not. It
// fails with a *[PositionError] if the position is not one of this tool.
func (t *Program) CheckAnswers(pos *Position, answers []steps.Answer) error {
	if err := t.current(pos); err != nil {
		return &PositionError{t.Name, err}
	}
	now := *pos
	now.pending = slices.Clone(pos.pending)
	now.seen = slices.Clip(pos.seen)
	fresh, err := now.accept(answers)
	if err != nil {
		return err
	}
	for i := range now.pending {
		p := &now.pending[i]
		q := t.questions[ident.Base(p.id)]
		if !fresh[i] || p.answer.failed || q == nil {
			continue
		}
		step := steps.Step{Kind: p.kind, Needs: p.needs, Params: p.params, Varied: true}
		if p.params == nil {
			if q.err != nil {
				continue // Resume says so
			}
			step = q.step
		}
		step.ID = p.stepID()
		var malformed *checkerr.MalformedError
		if err := Protect(func() error { return q.Check(step, p.answer.raw) }); errors.As(err, &malformed) {
			return &AnswerError{step.ID, malformed.Reason}
		}
	}
	return nil
}
