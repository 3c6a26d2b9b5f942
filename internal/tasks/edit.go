package tasks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// edit changes a task for its client. change returns false if there is nothing to do. If the
// task is to go on now, run is true.
func (m *Manager) edit(ctx context.Context, principal, id string, change func(e *records.TaskEntry) (run, changed bool, err error)) (*Task, error) {
	m.sync(ctx)
	for {
		e, err := m.find(ctx, principal, id)
		if err != nil {
			return nil, err
		}
		next := e.Clone()
		run, changed, err := change(next)
		if err != nil {
			return nil, m.report(ctx, "task", err)
		}
		if !changed {
			return m.view(e)
		}
		if status(next) != status(e) {
			next.Seen++
			next.Updated = m.now()
		}
		if run && !e.Taken() {
			err = m.put(ctx, next)
		} else {
			next.KeepUntil = keepUntil(&next.Task)
			_, err = m.book.PutTask(ctx, next, false)
		}
		switch {
		case errors.Is(err, records.ErrConflict):
			continue
		case err != nil:
			return nil, m.report(ctx, "task", err)
		}
		return m.view(next)
	}
}

// Answer implements [Viewer].
func (m *Manager) Answer(ctx context.Context, principal, id string, answers []steps.Answer) (*Task, error) {
	return m.edit(ctx, principal, id, func(e *records.TaskEntry) (run, changed bool, err error) {
		if status(e) != InputRequired || e.Taken() {
			return false, false, nil
		}
		questions, numbers, err := questionsOf(&e.Task)
		if err != nil {
			return false, false, err
		}
		fresh := answersTo(questions, answers)
		if len(fresh) == 0 {
			return false, false, nil
		}
		program, _ := m.Turns.ProgramOf(e.Target.Name, e.Target.Revision)
		if program == nil {
			return false, false, turns.ErrNewer
		}
		position, err := decodePosition(e.Position, e.Saga)
		if err == nil {
			err = program.CheckAnswers(position, fresh)
		}
		if err != nil {
			return false, false, err
		}
		known, err := decodeAnswers(e.Answers)
		if err != nil {
			return false, false, err
		}
		for _, a := range fresh { // of those that are given twice, which are the same
			if len(answersTo([]steps.Step{{ID: a.StepID}}, known)) == 0 {
				known = append(known, a)
			}
			i := slices.IndexFunc(questions, func(q steps.Step) bool { return q.ID == a.StepID })
			e.Given = appendGiven(e.Given, Given{numbers[i], Sum(a)})
		}
		e.Answers = encodeAnswers(known)
		e.Seen++
		left, _, err := questionsOf(&e.Task)
		return len(left) == 0, true, err
	})
}

// Cancel implements [Viewer].
func (m *Manager) Cancel(ctx context.Context, principal, id string) (*Task, error) {
	t, err := m.edit(ctx, principal, id, func(e *records.TaskEntry) (run, changed bool, err error) {
		if e.State == records.TaskEnded || e.Cancelled || e.TooLate || len(e.Undo) > 0 {
			return false, false, nil
		}
		e.Cancelled = true
		return true, true, nil
	})
	if err == nil && t.Cancelling && !t.Status.Ended() {
		if r := m.runs(principal, id); r != nil {
			r.cut(errCancelled)
		}
	}
	return t, err
}

// runs returns the run of a task that is held here, or nil.
func (m *Manager) runs(principal, id string) *run {
	key, err := m.book.TaskKey(principal, id)
	if err != nil {
		return nil
	}
	return m.crew.find(key)
}

// Extend implements [Viewer].
func (m *Manager) Extend(ctx context.Context, principal, id string, until time.Time) error {
	_, err := m.edit(ctx, principal, id, func(e *records.TaskEntry) (run, changed bool, err error) {
		if !until.After(e.Keep) {
			return false, false, nil
		}
		e.Keep = until.UTC()
		return false, true, nil
	})
	return err
}
