package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Bounds of what a saga does without its client.
const (
	// maxPauses is how many turns in a row may ask nothing.
	maxPauses = 1000
	// maxOwn is how many turns in a row may ask only the server's model.
	maxOwn = 100
	// maxBytes is how many bytes of partial results and questions are kept.
	maxBytes = 8 << 20
	// eventSize is what an event counts besides its contents.
	eventSize = 64
)

// step takes the next turn. again says that the next turn is to follow at once.
func (h *hold) step(r *row, now time.Time) (again bool, err error) {
	turn, err := h.taskTurn(r, now, nil)
	if err != nil {
		return false, h.failed(r, err)
	}
	questions := r.Stand.Questions
	own, theirs := open(questions, turn.Answers, turn.Client)
	events := r.events()
	switch {
	case len(own) > 0:
		return h.askModel(r, own, turn.Answers, len(theirs) > 0 && len(events) == 0)
	case len(events) > 0:
		return h.awaitEvents(r, events)
	case len(theirs) > 0: // it was woken for nothing
		return false, h.commit(func(r *row) []event { return h.pause(r, store.Waiting) })
	}
	if r.Status == store.Sleeping {
		turn.Now = later(turn.Now, r.Times.Asleep) // clocks differ a little
	}
	all := turn.Answers
	turn.Answers, turn.Lost = answersTo(questions, all), h.doubts()
	if len(questions) == 0 && turn.Position != nil { // its client has driven it so far, and has answered what that asked
		turn.Answers = answersToIDs(turn.Position.PendingIDs(), all)
	}
	ctx, stop := h.newTurn()
	unwatch := h.watched(ctx, r)
	end, err := h.c.Turns.TakeTask(ctx, turn)
	unwatch()
	stop(nil)
	return h.took(r, &end, err, all, turn.Client)
}

// took continues after a turn, which was taken from r. all are the answers that had come.
func (h *hold) took(r *row, end *turns.End, err error, all []steps.Answer, client steps.Features) (again bool, _ error) {
	switch {
	case err != nil:
		return h.broke(r, err)
	case end.Gone != "":
		return h.wasUndone(end, turns.UndoReport(end.Result), errChanged)
	case end.Position == nil:
		return h.ends(end)
	}
	return h.suspend(end, all, client)
}

// open returns the questions that have no answer yet: those for the server's own model, and the client's.
func open(questions []steps.Step, answers []steps.Answer, client steps.Features) (own, theirs []steps.Step) {
	for _, q := range questions {
		switch {
		case hasAnswer(answers, q.ID):
		case client.Has(q.Needs):
			theirs = append(theirs, q)
		default:
			own = append(own, q)
		}
	}
	return own, theirs
}

// reach notes within a change that the saga has come to a position.
func (h *hold) reach(r *row, pos *engine.Position) event {
	before, _ := decodePosition(r.Stand.Position, r.Saga)
	r.Stand.Position, r.Stand.Questions, r.Stand.Answers, r.Stand.Events = r.encode(pos), nil, nil, nil
	r.Revision = h.program.Revision
	h.further(r)
	names := pos.Effects()
	if before != nil && len(before.Effects()) <= len(names) {
		names = names[len(before.Effects()):]
	}
	if len(names) > 0 {
		return event{kind: kindEffect, body: body{Effects: names}}
	}
	return event{kind: kindTurn}
}

// checkpoint writes how far the turn has come, and ends it there if the saga is to be handed over.
func (h *hold) checkpoint(_ context.Context, pos *engine.Position) error {
	h.lock()
	defer h.unlock()
	if one := h.calling; one != nil && !pos.HasEffects() { // it needs no row yet
		kept := *pos
		one.saved = &kept
		return nil
	}
	handed := false
	err := h.commitLocked(func(r *row) []event {
		e := h.reach(r, pos)
		if handed = h.handing.Load() && !r.Cancelled; handed {
			h.rest(r, store.Working, dueAt(r.now()))
		}
		return []event{e}
	})
	if err == nil && handed {
		h.lose() // nothing that the tool does yet takes it back
		return errStopping
	}
	return err
}

// askModel has the server's own model answer questions, and records what it says.
func (h *hold) askModel(r *row, own []steps.Step, answers []steps.Answer, wait bool) (again bool, err error) {
	if h.own++; h.own > maxOwn {
		return h.undo(r, &tasks.FailedError{Text: fmt.Sprintf("The tool asked the server's model %d times in a row.", maxOwn)})
	}
	ctx, stop := h.newTurn()
	defer stop(nil)
	defer h.watched(ctx, r)()
	for _, q := range own {
		a, err := h.c.Turns.Sample(ctx, h.program, q)
		if errors.Is(err, context.DeadlineExceeded) && h.stopped() == nil {
			return h.undo(r, err) // it would take as long the next time
		}
		if err != nil {
			return h.broke(r, err)
		}
		answers = append(answers, a)
	}
	err = h.commit(func(r *row) []event {
		r.fold(&event{kind: kindAnswer, at: r.Shown.Updated, body: body{Answers: answers}})
		h.further(r)
		if wait && !r.Cancelled {
			h.pause(r, store.Waiting)
		}
		again = r.Running.Held
		return []event{{kind: kindTurn, body: body{Text: "the server's model has answered"}}}
	})
	if errors.Is(err, store.ErrTooLarge) {
		return h.undo(r, errState) // the next answer may be as large
	}
	return again, err
}

// awaitEvents has the documents of events say that the saga waits for them, takes what has happened, and puts the saga
// to rest if it waits for more. A process that takes it over does that again.
func (h *hold) awaitEvents(r *row, events []tasks.Awaited) (again bool, err error) {
	var answers []steps.Answer
	for i := range events {
		a, err := h.c.registerOne(h.ctx, r.Principal, &r.ID, h.program, &events[i])
		if err != nil && !r.now().Before(events[i].Until.Add(awaitAgain)) { // it is over, whatever is written
			a, err = &steps.Answer{StepID: events[i].ID, Result: json.RawMessage(timedOut), By: byEvent}, nil
		}
		if err != nil {
			h.c.Turns.Log.Warn("a saga cannot wait for an event, and will try again", "tool", r.Tool, "event", events[i].Question, "error", err)
			return false, h.putBack(awaitAgain)
		}
		if a != nil {
			answers = append(answers, *a)
		}
	}
	err = h.commit(func(r *row) (list []event) {
		if len(answers) > 0 {
			e := event{kind: kindAnswer, at: r.Shown.Updated, body: body{Answers: answers}}
			r.fold(&e)
			list = append(list, e)
		}
		if r.waits() && !r.Cancelled {
			return append(list, h.pause(r, store.Waiting)...)
		}
		h.further(r)
		again = true
		return append(list, event{kind: kindTurn})
	})
	if errors.Is(err, store.ErrTooLarge) {
		return h.undo(r, errState) // it would be the next time
	}
	return again, err
}

// awaitAgain is how long after a saga could not wait for an event it tries again.
const awaitAgain = 5 * time.Second

// suspend records where the saga stands after a turn that has not ended it, what it asks and what it yields. The saga is
// put to rest if it waits for its client or a time; otherwise again says that the next turn follows at once. A saga that
// exceeds a bound is undone.
func (h *hold) suspend(end *turns.End, answers []steps.Answer, client steps.Features) (again bool, err error) {
	// What was sent ahead is an answer now, if it can be one.
	ahead := answersTo(end.Steps, answers)
	if len(ahead) > 0 && h.program.CheckAnswers(end.Position, ahead) != nil {
		ahead = nil
	}
	own, theirs := open(end.Steps, ahead, client)
	if h.stalls(end, own) {
		return h.undoTurn(errPauses)
	}
	was, _, _ := h.look()
	partial, err := encodeYielded(was, end)
	if err != nil {
		return h.undoTurn(err)
	}
	err = h.commit(func(r *row) []event {
		events := []event{h.reach(r, end.Position)}
		r.Stand.Questions, r.Stand.Answers, r.Stand.Events = asked(end.Steps), ahead, h.c.awaits(h.program, end.Position)
		r.Stand.Asked += uint64(len(end.Steps))
		switch wake := end.Position.Wake; {
		case r.Cancelled: // so it is undone at once
		case len(r.Stand.Events) > 0: // their documents are to say so first, in the next step
		case len(theirs) > 0 && len(own) == 0:
			h.pause(r, store.Waiting)
		case !wake.IsZero():
			r.Times.Asleep = wake
			h.pause(r, store.Sleeping)
		}
		again = r.Running.Held
		return append(events, shownAfter(r, partial, asked(theirs))...)
	})
	if errors.Is(err, store.ErrTooLarge) {
		return h.undoTurn(errState)
	}
	return again, err
}

// stalls counts the turns in a row that ask, yield and wait for nothing, and reports whether these are too many.
func (h *hold) stalls(end *turns.End, own []steps.Step) bool {
	if h.pauses++; len(end.Steps) > 0 || len(end.Yielded) > 0 || !end.Position.Wake.IsZero() || end.Position.Awaits() {
		h.pauses = 0
	}
	if len(own) == 0 {
		h.own = 0
	}
	return h.pauses > maxPauses
}

// encodeYielded encodes what a turn yields, as nil if that is nothing. It fails if it is too large with what the saga has
// yielded before.
func encodeYielded(r *row, end *turns.End) ([]byte, error) {
	if len(end.Yielded) == 0 {
		return nil, nil
	}
	partial, err := end.Yielded.MarshalJSON()
	if err == nil && r.Shown.Bytes+uint64(len(partial)) > maxBytes {
		err = errPartial
	}
	return partial, err
}

// shownAfter is what clients see of a turn, within the change that records it: what it yields, if anything, and asks.
func shownAfter(r *row, partial []byte, questions []steps.Step) (events []event) {
	if partial != nil {
		r.Shown.Bytes += uint64(len(partial)) + eventSize
		events = append(events, event{kind: kindPartial, body: body{Partial: partial}})
	}
	for _, q := range questions {
		if r.Shown.Bytes < maxBytes {
			r.Shown.Bytes += uint64(len(q.Params)) + eventSize
			events = append(events, event{kind: kindQuestion, body: body{Question: &q}})
		}
	}
	return events
}

// broke is called when a turn has ended without an outcome. It finds out whether this process is to continue with the
// saga at all, and then whether a hook kept it from being taken, or it has undone the saga. If neither is so, brokeOff goes by
// the error.
func (h *hold) broke(r *row, err error) (again bool, _ error) {
	_, lost, handing := h.look()
	why := h.stopped()
	report, undone := undoneIn(err)
	nothingUndone := report == nil || len(report.Undone) == 0
	var hooked *turns.HookError
	switch {
	case lost:
		return false, errLost
	case !undone && errors.Is(err, store.ErrTooLarge): // and would be the next time
		return h.undoTurn(errState)
	case handing && errors.As(err, new(*engine.HaltedError)), why == errStopping && nothingUndone:
		return false, h.handOver(true)
	case errors.As(err, &hooked):
		return h.refused(r, hooked, why)
	case undone:
		return h.brokeUndone(err, why, report)
	}
	return h.brokeOff(r, err, why)
}

// undoneIn reports whether a turn that has broken off with err has undone the saga, so that nothing is in doubt, and
// what it has undone, if there was anything.
func undoneIn(err error) (report *engine.UndoReport, undone bool) {
	var e *engine.UndoneError
	if errors.As(err, new(*engine.UnsettledError)) || !errors.As(err, &e) {
		return nil, false
	}
	return e.Report, true
}

// brokeUndone is broke for a turn in which what the saga did was undone; why is why the turn was stopped.
func (h *hold) brokeUndone(err, why error, report *engine.UndoReport) (again bool, _ error) {
	switch {
	case why == errOver, why == errCancelled:
	case errors.As(err, new(*engine.PositionError)):
		why = errChanged
	default: // it has failed by itself
		why = err
	}
	return h.wasUndone(&turns.End{Outcome: *engine.Cancelled(report, "Cancelled.")}, report, why)
}

// brokeOff is broke for a turn of which nothing was undone; why is why the turn was stopped.
func (h *hold) brokeOff(r *row, err, why error) (again bool, _ error) {
	unsettled := errors.As(err, new(*engine.UnsettledError))
	beforeAnyCode := ctxError(err) && !unsettled
	var early *engine.EarlyError
	switch {
	case why == errCancelled && (beforeAnyCode || h.doubts()): // with doubt it is not known what code did
		return true, h.sync()
	case errors.As(err, &early):
		return false, h.commit(func(r *row) []event {
			r.Times.Asleep = early.At
			return h.pause(r, store.Sleeping)
		})
	case errors.As(err, new(*engine.AnswerError)):
		// It was looked at when it came; so the program is another one now. Ask again.
		return true, h.commit(func(r *row) []event { r.Stand.Answers = nil; return []event{{kind: kindRest}} })
	case turns.EndsWith(h.program.Kind, err):
		return false, h.fail(err, nil)
	case why == nil && errors.As(err, new(*engine.StepFailure)) && !ctxError(err) && !unsettled:
		return h.undoTurn(err) // its end is no end, and would be none the next time
	}
	return false, h.failed(r, err)
}

// refused is called when a hook has kept a turn from being taken; why is why the turn was cut
// meanwhile. Nothing of the turn has happened.
func (h *hold) refused(r *row, err *turns.HookError, why error) (again bool, _ error) {
	var refused *turns.RefusedError
	switch {
	case why != nil:
		return true, h.sync()
	case errors.As(err, &refused) && refused.Later, errors.Is(err, turns.ErrHookLate):
		return false, h.failed(r, err)
	}
	return h.undo(r, err)
}

func ctxError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// goOnAnyway forgets that a client wanted the saga cancelled: there is no way back. What was run to find that
// out may have done more than is known.
func (h *hold) goOnAnyway() error {
	err := h.commit(func(r *row) []event {
		r.Cancelled, r.Final, r.Undoing = false, true, nil
		r.Running.Doubt, h.doubt = true, true
		r.Shown.Message = "Not cancelled: it is too late."
		if r.Status == store.Waiting || r.Status == store.Sleeping || r.Status == store.Undoing {
			r.Status = store.Working
		}
		return []event{{kind: kindTurn, body: body{Text: r.Shown.Message}}}
	})
	if why := h.cut.Load(); err == nil && why != nil && *why == errCancelled {
		h.cut.CompareAndSwap(why, nil) // not before: what is written may have found it once more
	}
	return err
}
