package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	questions := stepsOf(r.Stand.Questions)
	own, theirs := open(questions, turn.Answers, turn.Client)
	switch {
	case len(own) > 0:
		return h.askModel(r, own, turn.Answers, len(theirs) > 0)
	case len(theirs) > 0: // it was woken for nothing
		return false, h.commit(func(r *row) []event { h.wait(r); return []event{{kind: kindRest}} })
	}
	if r.Status == store.Sleeping {
		turn.Now = later(now, r.Times.Asleep) // clocks differ a little
	}
	all := turn.Answers
	turn.Answers, turn.Lost = answersTo(questions, all), h.doubt
	ctx := h.newTurn()
	unwatch := h.watched(ctx, r)
	end, err := h.c.Turns.TakeTask(ctx, turn)
	unwatch()
	ctx.stop(nil)
	return h.took(r, &end, err, all, turn.Client)
}

// took continues after a turn, which was taken from r. all are the answers that had come.
func (h *hold) took(r *row, end *turns.End, err error, all []steps.Answer, client steps.Features) (again bool, _ error) {
	switch {
	case err != nil:
		return h.broke(r, err)
	case end.Gone != "":
		return false, h.fail(errChanged, turns.UndoReport(end.Result))
	case end.Position == nil:
		return false, h.finish(end, completed)
	}
	return h.suspend(end, all, client)
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

// reach notes within a change that the saga has come to a position.
func (h *hold) reach(r *row, pos *engine.Position) (event, error) {
	before, _ := decodePosition(r.Stand.Position, r.Saga)
	raw, err := encodePosition(pos, r.Begun.Arguments == nil)
	if err != nil {
		return event{}, err
	}
	r.Stand.Position, r.Stand.Questions, r.Stand.Answers = raw, nil, nil
	r.Revision = h.program.Revision
	h.further(r)
	names := pos.Effects()
	if before != nil && len(before.Effects()) <= len(names) {
		names = names[len(before.Effects()):]
	}
	if len(names) > 0 {
		return event{kind: kindEffect, body: body{Effects: names}}, nil
	}
	return event{kind: kindTurn}, nil
}

// checkpoint writes how far the turn has come, and ends it there if the saga is to be handed
// over.
func (h *hold) checkpoint(_ context.Context, pos *engine.Position) error {
	undone, handed := pos.Next() == "", false
	why := h.stopped()
	switch {
	case undone && why == errStopping:
		return errStopping // that broke it off, so the next worker that takes it continues
	case undone && why == errCancelled:
		return nil // it may be too late, so that it continues from where it stands
	case h.postpone(pos):
		return nil
	}
	var encoding error
	err := h.commit(func(r *row) []event {
		if undone && why == errOver {
			r.Undoing = &undoing{Why: whyOver} // an answer that comes now comes too late
		}
		var e event
		if e, encoding = h.reach(r, pos); encoding != nil {
			return []event{{kind: kindTurn}}
		}
		if handed = h.handing.Load() && !undone && !r.Cancelled; handed {
			h.rest(r, store.Working, dueAt(r.now()))
		}
		return []event{e}
	})
	if err = errors.Join(err, encoding); err != nil {
		return err
	}
	if h.undone, h.handed = undone, handed; handed {
		h.lock()
		h.lose() // nothing that the tool does yet takes it back
		h.unlock()
		return errStopping
	}
	return nil
}

// askModel has the server's own model answer questions, and records what it says.
func (h *hold) askModel(r *row, own []steps.Step, answers []steps.Answer, wait bool) (again bool, err error) {
	if h.own++; h.own > maxOwn {
		return h.undo(r, &tasks.FailedError{Text: fmt.Sprintf("The tool asked the server's model %d times in a row.", maxOwn)})
	}
	ctx := h.newTurn()
	defer ctx.stop(nil)
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
	kept := keptAnswers(answers)
	err = h.commit(func(r *row) []event {
		for _, a := range kept {
			r.fold(&event{kind: kindAnswer, n: 0, at: r.Shown.Updated, body: body{Answers: []answer{a}}})
		}
		h.further(r)
		if wait {
			h.wait(r)
		}
		again = r.Running.Held
		return []event{{kind: kindTurn, body: body{Text: "the server's model has answered"}}}
	})
	return again, err
}

// suspend records where the saga stands after a turn.
func (h *hold) suspend(end *turns.End, answers []steps.Answer, client steps.Features) (again bool, err error) {
	// What was sent ahead is an answer now, if it can be one.
	ahead := answersTo(end.Steps, answers)
	if len(ahead) > 0 && h.program.CheckAnswers(end.Position, ahead) != nil {
		ahead = nil
	}
	own, theirs := open(end.Steps, ahead, client)
	if h.pauses++; len(end.Steps) > 0 || len(end.Yielded) > 0 || !end.Position.Wake.IsZero() {
		h.pauses = 0
	}
	if len(own) == 0 {
		h.own = 0
	}
	if h.pauses > maxPauses {
		return h.undoTurn(errPauses)
	}
	var partial []byte
	if len(end.Yielded) > 0 {
		if partial, err = end.Yielded.MarshalJSON(); err != nil {
			return h.undoTurn(err)
		}
		if r, _, _ := h.look(); r.Shown.Bytes+uint64(len(partial)) > maxBytes {
			return h.undoTurn(errPartial)
		}
	}
	var encoding error
	err = h.commit(func(r *row) (events []event) {
		var e event
		if e, encoding = h.reach(r, end.Position); encoding != nil {
			return []event{{kind: kindTurn}}
		}
		events = append(events, e)
		r.Stand.Questions, r.Stand.Answers = questionsOf(end.Steps), keptAnswers(ahead)
		r.Stand.Asked += uint64(len(end.Steps))
		switch wake := end.Position.Wake; {
		case len(theirs) > 0 && len(own) == 0:
			h.wait(r)
		case !wake.IsZero() && !r.Cancelled:
			r.Times.Asleep = wake
			h.sleep(r)
		}
		if partial != nil {
			r.Shown.Bytes += uint64(len(partial)) + eventSize
			events = append(events, event{kind: kindPartial, body: body{Partial: partial}})
		}
		for _, q := range questionsOf(theirs) {
			if r.Shown.Bytes < maxBytes {
				r.Shown.Bytes += uint64(len(q.Params)) + eventSize
				events = append(events, event{kind: kindQuestion, body: body{Question: &q}})
			}
		}
		again = r.Running.Held
		return events
	})
	if encoding != nil || errors.Is(err, store.ErrTooLarge) {
		return h.undoTurn(errState)
	}
	return again, err
}

// broke is called when a turn has ended without an outcome.
func (h *hold) broke(r *row, err error) (again bool, _ error) {
	_, lost, handing := h.look()
	why := h.stopped()
	var undone *engine.UndoneError
	var early *engine.EarlyError
	var hooked *turns.HookError
	isUndone := errors.As(err, &undone) && !errors.As(err, new(*engine.UnsettledError))
	switch {
	case h.handed:
		return false, nil
	case lost:
		return false, errLost
	case errors.Is(err, store.ErrTooLarge) && !isUndone: // and would be the next time
		return h.undoTurn(errState)
	case errors.As(err, new(*engine.HaltedError)) && handing, !isUndone && why == errStopping, isUndone && undone.Report == nil && why == errStopping:
		return false, h.handOver(true)
	case !isUndone && why == errCancelled && (ctxError(err) || h.doubt): // before any code ran, or it is not known what did
		return true, h.sync()
	case errors.As(err, &hooked):
		return h.refused(r, hooked, why)
	case errors.As(err, &early) && !isUndone:
		return false, h.commit(func(r *row) []event {
			r.Times.Asleep = early.At
			h.sleep(r)
			return []event{{kind: kindRest}}
		})
	case errors.As(err, new(*engine.AnswerError)) && !isUndone:
		// It was looked at when it came; so the program is another one now. Ask again.
		return true, h.commit(func(r *row) []event { r.Stand.Answers = nil; return []event{{kind: kindRest}} })
	case turns.EndsWith(h.kindOf(), err):
		return false, h.fail(err, nil)
	case !isUndone && why == nil && errors.As(err, new(*engine.StepFailure)) && !ctxError(err) && !errors.As(err, new(*engine.UnsettledError)):
		return h.undoTurn(err) // its end is no end, and would be none the next time
	case !isUndone:
		return false, h.failed(r, err)
	case why == errCancelled && undone.Report.TooLate() && !h.undone: // else it had failed by itself
		return true, h.goOnAnyway(true)
	case why == errCancelled && !undone.Report.TooLate():
		end := &turns.End{Outcome: *engine.Cancelled(undone.Report, "Cancelled.")}
		return false, h.finish(end, cancelled)
	case why == errOver:
		return false, h.fail(expired(undone.Report), undone.Report)
	}
	return false, h.fail(err, undone.Report)
}

// sync finds out what others have written.
func (h *hold) sync() error {
	h.lock()
	defer h.unlock()
	if h.calling != nil {
		return nil
	}
	return h.reload()
}

// refused is called when a hook has kept a turn from being taken; why is why the turn was cut
// meanwhile. Nothing of the turn has happened.
func (h *hold) refused(r *row, err *turns.HookError, why error) (again bool, _ error) {
	var refused *turns.RefusedError
	switch {
	case why != nil:
		return true, h.sync()
	case errors.As(err, &refused) && refused.Later:
		return false, h.failed(r, err)
	}
	return h.undo(r, err)
}

func ctxError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// goOnAnyway forgets that a client wanted the saga cancelled: there is no way back. doubt is as in
// handOver.
func (h *hold) goOnAnyway(doubt bool) error {
	err := h.commit(func(r *row) []event {
		r.Cancelled, r.Final, r.Undoing = false, true, nil
		r.Running.Doubt = h.doubt || doubt
		h.doubt = r.Running.Doubt
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
