package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Bounds of what a task does without anybody being asked.
const (
	// maxPauses is how many turns in a row may ask nothing.
	maxPauses = 1000
	// maxOwn is how many turns in a row only the server's model may be asked for.
	maxOwn = 100
	// maxPartial is how many bytes of partial results and questions are kept.
	maxPartial = 8 << 20
)

// never is when a task that nothing ends is looked at again.
const never = 10 * 365 * 24 * time.Hour

// step takes the next turn. again says that the task goes on at once.
func (r *run) step(t *records.Task, now time.Time) (again bool, err error) {
	if r.next != nil {
		next := r.next
		r.next = nil
		return r.take(t, next.turn, next.questions, now)
	}
	turn, err := turnOf(t, r.program, now)
	if err != nil {
		return false, r.failed(t, err)
	}
	if turn.Adopted != nil && !r.adopted {
		if err := r.adopt(t); err != nil {
			if errors.As(err, new(*tokens.Rejected)) {
				return false, r.fail(&FailedError{"The task was begun twice: the saga has gone on from its token otherwise."}, nil)
			}
			return false, r.failed(t, err)
		}
	}
	questions, err := decodeQuestions(t.Questions)
	if err != nil {
		return false, r.failed(t, err)
	}
	own, theirs := open(questions, turn.Answers, turn.Client)
	switch {
	case len(own) > 0:
		return r.askModel(t, own, turn.Answers, len(theirs) > 0)
	case len(theirs) > 0: // it was woken for nothing
		return false, r.write(func(t *records.Task) []Event { r.wait(t); return nil })
	}
	if t.State == records.TaskSleeping {
		now = later(now, t.WakeAt) // clocks differ a little
	}
	return r.take(t, turn, questions, now)
}

// take takes a turn from t, in which nothing is open any more of the questions.
func (r *run) take(t *records.Task, turn turns.TaskTurn, questions []steps.Step, now time.Time) (again bool, err error) {
	all := turn.Answers
	turn.Now, turn.Answers = now, answersTo(questions, all)
	turn.Notifier, turn.Acting, turn.Checkpoint, turn.Lost = &r.notes, r.acting, r.checkpoint, r.inFlight(t)
	turn.Undoing, turn.Broken = r.undoing(nil), r.undoing(errChanged)
	ctx := r.newTurn()
	after, watch := r.watchAfter(t), func() { r.watch(ctx, t) }
	switch u := r.unwritten; {
	case u == nil:
	case u.ahead:
		r.notAheadForLong()
	default:
		after, watch = min(after, u.delay), func() { r.late(ctx) }
	}
	looking := time.AfterFunc(after, watch)
	end, err := r.m.Turns.TakeTask(ctx, turn)
	looking.Stop()
	ctx.stop(nil)
	return r.took(t, &end, err, all, turn.Client)
}

// took goes on after a turn, which was taken from t; nil is the beginning. all are the answers
// that had come.
func (r *run) took(t *records.Task, end *turns.End, err error, all []steps.Answer, client steps.Features) (again bool, _ error) {
	switch {
	case err != nil:
		if t == nil {
			t = r.task()
		}
		return r.broke(t, err)
	case end.Gone != "":
		return false, r.fail(errChanged, turns.UndoReport(end.Result))
	case end.Position == nil:
		return false, r.finish(end, Completed)
	}
	return r.suspend(end, all, client)
}

// adopt makes sure that the saga goes on by nobody else.
func (r *run) adopt(t *records.Task) error {
	asked, err := decodeRequest(t.Request)
	if err == nil {
		err = r.m.Turns.Adopt(r.ctx, t.Principal, r.program, tokens.ID(t.Saga), asked.after, asked.adopted)
	}
	r.adopted = err == nil
	return err
}

// open returns the questions that have no answer yet: those for the server's own model, and
// the client's.
func open(questions []steps.Step, answers []steps.Answer, client steps.Features) (own, theirs []steps.Step) {
	for _, q := range questions {
		if slices.ContainsFunc(answers, func(a steps.Answer) bool { return a.StepID == q.ID }) {
			continue
		}
		if client.Has(q.Needs) {
			theirs = append(theirs, q)
		} else {
			own = append(own, q)
		}
	}
	return own, theirs
}

// wait puts a task to rest until its client answers, unless that wants something else.
func (r *run) wait(t *records.Task) {
	if t.Cancelled {
		return
	}
	r.rest(t, records.TaskWaiting, waitsUntil(t, r.m.now()))
}

// sleep puts a task to rest until it is to go on, or over.
func (r *run) sleep(t *records.Task) {
	r.rest(t, records.TaskSleeping, sleepsUntil(t))
}

// checkpoint writes down how far the turn has come, and ends it there if the task is to be
// handed over.
func (r *run) checkpoint(_ context.Context, pos *engine.Position) error {
	undone, handed := pos.Next() == "", false
	why := r.whyCut()
	switch {
	case undone && why == errStopping:
		return errStopping // that broke it off, so whoever takes it next goes on
	case undone && why == errCancelled:
		return nil // it may be too late, so that it goes on from where it stands
	case r.saves(pos):
		return nil
	}
	err := r.writeCheckpoint(func(t *records.Task) []Event {
		if undone && why == errOver {
			t.Undo = (&mark{why: errOver}).encode() // whoever wants it after all comes too late
		}
		asked, _ := decodeRequest(t.Request)
		t.Position = encodePosition(pos, asked.arguments == nil)
		t.Target.Revision = r.program.Revision
		t.Questions, t.Answers = nil, nil
		r.goesOn(t)
		if handed = r.handing && !undone && !t.Cancelled; handed {
			r.rest(t, records.TaskQueued, r.m.due())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.undone, r.handed = undone, handed; handed {
		r.lock()
		r.lose() // nothing that the tool does yet takes it back
		r.unlock()
		return errStopping
	}
	return nil
}

// askModel has the server's own model answer questions, and records what it says.
func (r *run) askModel(t *records.Task, own []steps.Step, answers []steps.Answer, wait bool) (again bool, err error) {
	if r.own++; r.own > maxOwn {
		return r.undo(t, &FailedError{fmt.Sprintf("The tool asked the server's model %d times in a row.", maxOwn)})
	}
	ctx := r.newTurn()
	defer ctx.stop(nil)
	watch := time.AfterFunc(r.watchAfter(t), func() { r.watch(ctx, t) })
	defer watch.Stop()
	for _, q := range own {
		a, err := r.m.Turns.Sample(ctx, r.program, q)
		if errors.Is(err, context.DeadlineExceeded) && r.whyCut() == nil {
			return r.undo(t, err) // it would take as long the next time
		}
		if err != nil {
			return r.broke(t, err)
		}
		answers = append(answers, a)
	}
	err = r.write(func(t *records.Task) []Event {
		t.Answers = encodeAnswers(answers)
		r.goesOn(t)
		if wait {
			r.wait(t)
		}
		again = t.Rest.IsZero()
		return nil
	})
	return again, err
}

// suspend records where the saga stands.
func (r *run) suspend(end *turns.End, answers []steps.Answer, client steps.Features) (again bool, err error) {
	// What was sent ahead is an answer now, if it can be one.
	ahead := answersTo(end.Steps, answers)
	if len(ahead) > 0 && r.program.CheckAnswers(end.Position, ahead) != nil {
		ahead = nil
	}
	own, theirs := open(end.Steps, ahead, client)
	if r.pauses++; len(end.Steps) > 0 {
		r.pauses = 0
	}
	if len(own) == 0 {
		r.own = 0
	}
	if r.pauses > maxPauses {
		return r.undoTurn(errPauses)
	}
	var size uint64
	if len(end.Yielded) > 0 {
		r.pauses = 0
		raw, err := end.Yielded.MarshalJSON()
		if err != nil {
			return r.undoTurn(err)
		}
		if size = uint64(len(raw)); r.task().Size+size > maxPartial {
			return r.undoTurn(errPartial)
		}
	}
	if !end.Position.Wake.IsZero() {
		r.pauses = 0
	}
	questions := encodeQuestions(end.Steps)
	err = r.write(func(t *records.Task) (events []Event) {
		asked, _ := decodeRequest(t.Request)
		t.Position = encodePosition(end.Position, asked.arguments == nil)
		t.Target.Revision = r.program.Revision
		t.Questions, t.Answers = questions, encodeAnswers(ahead)
		t.Asked += uint64(len(end.Steps))
		r.goesOn(t)
		switch wake := end.Position.Wake; {
		case len(theirs) > 0 && len(own) == 0:
			r.wait(t)
		case !wake.IsZero() && !t.Cancelled:
			t.WakeAt = wake
			r.sleep(t)
		}
		if len(end.Yielded) > 0 {
			t.Size += size + eventSize
			events = append(events, Event{Kind: EventPartial, Content: end.Yielded})
		}
		for i := range theirs {
			if t.Size < maxPartial && !t.Call { // who waits for a call has them from the record
				t.Size += uint64(len(theirs[i].Params)) + eventSize
				events = append(events, Event{Kind: EventQuestion, Question: &theirs[i]})
			}
		}
		again = t.Rest.IsZero()
		return events
	})
	if errors.Is(err, ledger.ErrTooLarge) {
		return r.undoTurn(errState)
	}
	return again, err
}

// eventSize is what an event counts besides its contents.
const eventSize = 64

// broke is called when a turn has ended without an outcome.
func (r *run) broke(t *records.Task, err error) (again bool, _ error) {
	r.lock()
	lost, handing := r.lost, r.handing
	r.unlock()
	why := r.whyCut()
	var undone *engine.UndoneError
	var early *engine.EarlyError
	var hooked *turns.HookError
	isUndone := errors.As(err, &undone) && !errors.As(err, new(*engine.UnsettledError))
	switch {
	case r.handed:
		return false, nil
	case lost:
		return false, errLost
	case errors.Is(err, ledger.ErrTooLarge) && !isUndone: // and would be the next time
		return r.undoTurn(errState)
	case errors.As(err, new(*engine.HaltedError)) && handing, !isUndone && why == errStopping, isUndone && undone.Report == nil && why == errStopping:
		return false, r.handOver(true)
	case !isUndone && why == errCancelled && (ctxError(err) || r.inFlight(t)): // before any code ran, or it is not known what did
		return true, r.write(unchanged)
	case errors.As(err, &hooked):
		return r.refused(t, hooked, why)
	case errors.As(err, &early) && !isUndone:
		return false, r.write(func(t *records.Task) []Event {
			t.WakeAt = early.At
			r.sleep(t)
			return nil
		})
	case errors.As(err, new(*engine.AnswerError)) && !isUndone:
		// It was looked at when it came; so the program is another one now. Ask again.
		return true, r.write(func(t *records.Task) []Event { t.Answers = nil; return nil })
	case turns.EndsWith(r.program.Kind, err):
		return false, r.fail(err, nil)
	case !isUndone && why == nil && errors.As(err, new(*engine.StepFailure)) && !ctxError(err) && !errors.As(err, new(*engine.UnsettledError)):
		return r.undoTurn(err) // its end is no end, and would be none the next time
	case !isUndone:
		return false, r.failed(t, err)
	case why == errCancelled && undone.Report.TooLate() && !r.undone: // else it had failed by itself
		return true, r.goOnAnyway(true)
	case why == errCancelled && !undone.Report.TooLate():
		end := &turns.End{Outcome: *engine.Cancelled(undone.Report, "Cancelled.")}
		return false, r.finish(end, Cancelled)
	case why == errOver:
		return false, r.fail(expired(undone.Report), undone.Report)
	}
	return false, r.fail(err, undone.Report)
}

// refused is called when a hook has kept a turn from being taken; why is why the task was cut
// meanwhile. Nothing of the turn has happened.
func (r *run) refused(t *records.Task, err *turns.HookError, why error) (again bool, _ error) {
	if why != nil {
		return true, r.write(unchanged)
	}
	r.lock()
	ahead := r.beginsAhead()
	if ahead { // who begins the task hears of it, and there is none
		r.unwritten.over, r.unwritten.err = true, &turns.Error{Err: err} // which is logged
	}
	r.unlock()
	var refused *turns.RefusedError
	switch {
	case ahead:
		return false, nil
	case errors.As(err, &refused) && refused.Later:
		return false, r.failed(t, err)
	}
	return r.undo(t, err)
}

func ctxError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// goOnAnyway forgets that a client wanted the task cancelled: there is no way back. loose is as in
// handOver.
func (r *run) goOnAnyway(loose bool) error {
	err := r.write(func(t *records.Task) []Event {
		t.Cancelled, t.TooLate, t.Undo = false, true, nil
		t.Loose = t.Loose || loose
		t.Message = "Not cancelled: it is too late."
		if t.State == records.TaskWaiting || t.State == records.TaskSleeping {
			t.State = records.TaskQueued
		}
		t.Rest = time.Time{}
		return nil
	})
	if why := r.why.Load(); err == nil && why != nil && *why == errCancelled {
		r.why.CompareAndSwap(why, nil) // not before: what is written may have found it once more
	}
	return err
}

// undo ends the task, for the reason why, and undoes what it did. again says that there is no
// way back, so it goes on.
func (r *run) undo(t *records.Task, why error) (again bool, err error) {
	return r.undoFrom(t, why, r.inFlight(t) && why != errAttempts) // what it runs is what breaks servers
}

// undoTurn is undo after a turn of which nothing is written down since its last checkpoint.
func (r *run) undoTurn(why error) (again bool, err error) {
	return r.undoFrom(r.task(), why, r.program.Acts())
}

// undoFrom is undo; lost says that more may have been done than is known.
func (r *run) undoFrom(t *records.Task, why error, lost bool) (again bool, err error) {
	turn, err := turnOf(t, r.program, r.m.now())
	if err != nil {
		return false, r.failed(t, err)
	}
	questions, _ := decodeQuestions(t.Questions)
	turn.Answers = answersTo(questions, turn.Answers)
	turn.Acting, turn.Undoing, turn.Checkpoint = r.acting, r.undoing(why), r.checkpoint
	text := ""
	switch why {
	case errCancelled:
	case errOver:
		text = errExpired.Text
	default:
		text = why.Error()
	}
	end, err := r.m.Turns.UndoTask(r.ctx, turn, lost, r.served, text)
	if err != nil {
		return r.notUndone(t, err)
	}
	return r.wasUndone(&end, why)
}
