package tasks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/steps"
)

// answerDelay is how long the turn after the last answer to a call may take before the answer is
// written down alone: for so long its client may wait to hear that it has arrived.
const answerDelay = 50 * time.Millisecond

// Answer implements [Viewer].
func (m *Manager) Answer(ctx context.Context, principal, id string, answers []steps.Answer) (*Task, error) {
	e, _, err := m.answer(ctx, principal, id, nil, answers)
	if err != nil {
		return nil, err
	}
	return m.view(e)
}

// AnswerFound implements [Viewer].
func (m *Manager) AnswerFound(ctx context.Context, principal string, t *Task, answers []steps.Answer) (*Task, error) {
	e, taken, err := m.answer(ctx, principal, t.ID, t.entry, answers)
	if err != nil || taken {
		return nil, err
	}
	return m.view(e)
}

// answer gives a task answers. It returns its record as it is then, and whether any was taken. It
// was found as e lately; if that is nil, it was not.
func (m *Manager) answer(ctx context.Context, principal, id string, e *records.TaskEntry, answers []steps.Answer) (now *records.TaskEntry, taken bool, err error) {
	m.sync(ctx)
	found, tried := false, false
	for {
		if e == nil {
			if e, err = m.find(ctx, principal, id); err != nil {
				return nil, false, err
			}
			found = true
		}
		a, err := m.answered(e, answers)
		switch {
		case err != nil:
			return nil, false, m.report(ctx, "task", err)
		case a == nil && found:
			return e, false, nil
		case a == nil: // that may have changed
		case a.goesOn && !tried:
			tried = true
			if now := m.goOn(ctx, a); now != nil {
				return now, true, nil
			}
		default:
			err := m.write(ctx, e, a.next, a.last)
			if err == nil {
				return a.next, true, nil
			}
			if errors.Is(err, ledger.ErrTooLarge) { // nor would it be smaller the next time
				err = &engine.AnswerError{StepID: answers[len(answers)-1].StepID, Reason: "it is larger than what can be kept with the others"}
			}
			if !errors.Is(err, records.ErrConflict) {
				return nil, false, m.report(ctx, "task", err)
			}
		}
		e = nil
	}
}

// answeredTask is a task with answers that it was just given.
type answeredTask struct {
	next *records.TaskEntry
	// last: it waits for nothing more. goesOn: and it is a call without effects, which can go on
	// here at once, with turn.
	last, goesOn bool
	questions    []steps.Step
	turn         turns.TaskTurn
}

// answered returns the task e with those of the answers that it waits for; nil if it waits for
// none of them.
func (m *Manager) answered(e *records.TaskEntry, answers []steps.Answer) (*answeredTask, error) {
	if status(e) != InputRequired || e.Taken() {
		return nil, nil
	}
	questions, err := decodeQuestions(e.Questions)
	if err != nil {
		return nil, err
	}
	asked, err := decodeRequest(e.Request)
	if err != nil {
		return nil, err
	}
	known, err := decodeAnswers(e.Answers)
	if err != nil {
		return nil, err
	}
	own, theirs := open(questions, known, asked.client)
	fresh := answersTo(theirs, answers)
	if len(fresh) == 0 {
		return nil, nil
	}
	program, served := m.Turns.ProgramOf(e.Target.Name, e.Target.Revision)
	if program == nil {
		return nil, turns.ErrNewer
	}
	position, err := decodePosition(e.Position, e.Saga)
	if err == nil {
		err = program.CheckAnswers(position, fresh)
	}
	if err != nil {
		return nil, err
	}
	next := e.Clone()
	for _, a := range fresh { // of those that are given twice, which are the same
		if len(answersTo([]steps.Step{{ID: a.StepID}}, known)) == 0 {
			known = append(known, a)
		}
		i := slices.IndexFunc(questions, func(q steps.Step) bool { return q.ID == a.StepID })
		next.Given = appendGiven(next.Given, Given{numberOf(&e.Task, len(questions), i), Sum(a)})
	}
	next.Answers = encodeAnswers(known)
	next.Seen++
	_, left := open(questions, known, asked.client)
	a := &answeredTask{next: next, last: len(left) == 0, questions: questions}
	// With effects, what is to be undone depends on what is written down when.
	if a.last && e.Call && served && !program.Acts() && len(own) == 0 && asked.adopted == nil {
		a.goesOn = true
		a.turn = turns.TaskTurn{
			Caller: asked.caller(&e.Task), Program: program, Saga: tokens.ID(e.Saga), Arguments: asked.arguments, Client: asked.client,
			Trace: asked.trace, Position: position, Answers: known,
		}
	}
	return a, nil
}

// goOn has a call go on with the turn after its last answer, and writes both down together. It
// returns the record as it is then; nil if nothing was written, and the answer is to be without
// the turn.
func (m *Manager) goOn(ctx context.Context, a *answeredTask) *records.TaskEntry {
	live, here := m.crew.answered()
	if !here {
		return nil
	}
	e := a.next
	e.State, e.Rest, e.Base = records.TaskQueued, time.Time{}, e.Epoch()
	u := &unwritten{delay: answerDelay, take: true, ready: make(chan struct{})}
	r := &run{
		m: m, ctx: live, mutex: make(chan struct{}, 1), key: e.Key(), principal: e.Principal, tool: e.Target.Name,
		program: a.turn.Program, served: true, call: true, counted: true,
		e: e, epoch: e.Epoch() + 1, unwritten: u, next: a, began: time.Now(),
	}
	r.notes.init(r, nil)
	r.notes.burst = 0 // a flow reports again what it has reported before it asked
	go r.work(r.driveUnwritten)
	r.await(ctx)
	if !u.made {
		return nil
	}
	return r.shown.newestEntry()
}

// tryTake writes the answer with what has become of the task since, as change leaves it. It is
// tried once: whatever is in the way, nothing was done that needs to be kept.
func (r *run) tryTake(change func(t *records.Task) []Event) error {
	u := r.unwritten
	if !r.m.crew.works() {
		return errStopping
	}
	if u.saved != nil {
		u.saved(&r.e.Task)
	}
	err := r.once(change)
	if u.made = err == nil || errors.Is(err, errLost); u.made {
		r.m.crew.succeed(r)
		u.settle()
	}
	return err
}
