package durable

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Before the first effect is undone, which cannot be taken back, the row says so: from there on the
// saga only ends, whatever process takes it, and whatever clients write meanwhile.

// undo ends the saga, for the reason why, and undoes what it did. again says that there is no
// way back, so it continues.
func (h *hold) undo(r *row, why error) (again bool, err error) {
	return h.undoFrom(r, why, h.tries <= h.c.Attempts && h.doubts()) // else what it runs is what breaks servers
}

// undoTurn is undo after a turn of which nothing is written since its last checkpoint.
func (h *hold) undoTurn(why error) (again bool, err error) {
	r, _, _ := h.look()
	return h.undoFrom(r, why, h.program.Acts())
}

// undoFrom is undo; doubt says that more may have been done than is known.
func (h *hold) undoFrom(r *row, why error, doubt bool) (again bool, err error) {
	turn, err := h.taskTurn(r, r.now(), why)
	if err != nil {
		return false, h.undoLater(err)
	}
	if h.begunUnknown(r) {
		h.c.Turns.Log.Error("what a saga did last is not known, and may not be undone: each server went down before it said so", "tool", r.Tool, "saga", r.Saga.String())
	}
	if begun := r.Stand.Begun; !(doubt && h.served) && begun != nil && turn.Begun == nil { // no code is run that would find it
		if turn.Position, err = decodePosition(begun, r.Saga); err != nil {
			return false, h.undoLater(err)
		}
	}
	turn.Answers = pending(turn.Position, turn.Answers)
	end, err := h.c.Turns.UndoTask(h.ctx, turn, doubt, h.served, textOf(why))
	return h.undoEnds(&end, err, why)
}

// textOf is what a client reads of why its saga is undone; empty if it has cancelled that.
func textOf(why error) string {
	switch why {
	case nil, errCancelled:
		return ""
	case errOver:
		return errExpired.Text
	}
	return why.Error()
}

func pending(pos *engine.Position, answers []steps.Answer) []steps.Answer {
	if pos == nil {
		return nil
	}
	return answersToIDs(pos.PendingIDs(), answers)
}

func markOf(why error) *undoing {
	u := &undoing{Why: whyFailed}
	var failed *tasks.FailedError
	var gone *goneError
	switch {
	case why == nil:
		u.Why = whyTurn
	case why == errCancelled:
		u.Why = whyCancelled
	case why == errOver:
		u.Why = whyOver
	case errors.As(why, &failed):
		u.Text = failed.Text
	case errors.As(why, &gone):
		u.Why, u.Text = whyGone, string(gone.reason)
	}
	return u
}

// reason is why the saga is being undone; nil if that is how its turn has ended.
func (u *undoing) reason() error {
	switch {
	case u.Why == whyTurn && u.Response != nil:
		return nil
	case u.Why == whyCancelled:
		return errCancelled
	case u.Why == whyOver:
		return errOver
	case u.Why == whyGone:
		return &goneError{tokens.Reason(u.Text)}
	case u.Text != "":
		return &tasks.FailedError{Text: u.Text}
	}
	return errUndone
}

// errUndone is why a saga has failed whose reason only the log of another server has.
var errUndone = errors.New("another server has begun to undo the saga")

// undoing returns what is called before anything is undone, for the reason why; nil is how the
// turn has ended. It fails if another process has the saga, with which it may go on: the store is
// asked, as a clock may have stood still.
func (h *hold) undoing(why error) func(context.Context, engine.Undoing) error {
	return func(ctx context.Context, u engine.Undoing) error {
		mark, err := h.mark(why, u)
		if err != nil {
			return err
		}
		if err = h.commitUndoing(mark, u); err != nil {
			return err
		}
		if _, lost, _ := h.look(); lost || h.expired() {
			return h.acting(ctx)
		}
		return nil
	}
}

// mark says what is being undone, and why. Without a reason that is how the turn has ended, or was cut off.
func (h *hold) mark(why error, u engine.Undoing) (mark *undoing, err error) {
	cut := h.stopped()
	mark = markOf(why)
	switch {
	case why != nil:
	case cut == errStopping && !h.client:
		return nil, errStopping // that broke it off, so the next worker that takes it continues
	case u.Outcome != nil:
		mark.Response, err = turns.EncodeResponse(&turns.End{Outcome: *u.Outcome}, nil)
	case cut == errCancelled, cut == errOver:
		mark = markOf(cut)
	}
	mark.Position, mark.Behind = encodePosition(u.Position), u.Behind
	return mark, err
}

// commitUndoing has the row say what is being undone, as much of it as can be kept.
func (h *hold) commitUndoing(mark *undoing, u engine.Undoing) error {
	forget := false
	put := func(r *row) []event {
		if forget { // an input may be what is too large
			r.Stand.Answers = nil
		}
		switch {
		case r.Undoing == nil:
			r.Undoing, h.beganUndo = mark, true
		case u.Behind:
			r.Undoing.Behind = true
		}
		r.Status = store.Undoing
		return []event{{kind: kindUndoing, body: body{Effects: u.Position.Effects(), Text: r.Undoing.Text}}}
	}
	err := h.commit(put)
	for _, large := range []*[]byte{&mark.Response, &mark.Position} { // the saga's own position may know nearly as much
		if errors.Is(err, store.ErrTooLarge) {
			*large = nil
			err = h.commit(put)
		}
	}
	if forget = errors.Is(err, store.ErrTooLarge); forget {
		err = h.commit(put)
	}
	return err
}

func (h *hold) goOnUndoing(r *row) (again bool, err error) {
	why := r.Undoing.reason()
	if r.Client != nil && r.Cancelled && why != nil {
		why = errCancelled
	}
	turn, err := h.taskTurn(r, r.now(), why)
	if err == nil && len(r.Undoing.Position) > 0 {
		turn.Position, err = decodePosition(r.Undoing.Position, r.Saga)
	}
	if err != nil {
		return false, h.undoLater(err)
	}
	turn.Answers, turn.Checkpoint, turn.Broken = nil, nil, nil
	end, err := h.c.Turns.GoOnUndoing(h.ctx, turn, r.Undoing.Response, textOf(why))
	if report := turns.UndoReport(end.Result); err == nil && r.Client == nil && why != nil && r.Undoing.Behind && report.TooLate() {
		end.Outcome = *engine.Cancelled(report.InPart(), "")
	}
	return h.undoEnds(&end, err, why)
}

// undoEnds records what has come of an undo for the reason why, which is nil if that is how the turn has ended. If
// it has failed, the saga is left for later.
func (h *hold) undoEnds(end *turns.End, err, why error) (again bool, _ error) {
	r, lost, handing := h.look()
	report := turns.UndoReport(end.Result)
	switch {
	case err != nil && lost:
		return false, errLost
	case err != nil && handing:
		return false, h.handOver(false)
	case err != nil:
		return false, h.undoLater(err)
	case r.Client != nil:
		return false, h.clientUndone(r, end, why)
	case why == nil, report == nil: // its turn had ended well
		return false, h.finish(end, completed)
	}
	return h.wasUndone(end, report, why)
}

// wasUndone ends a saga that was undone for the reason why, or continues it, if it is too late to cancel it.
func (h *hold) wasUndone(end *turns.End, report *engine.UndoReport, why error) (again bool, err error) {
	switch {
	case why == errCancelled && report.TooLate():
		return true, h.goOnAnyway()
	case why == errCancelled:
		return false, h.finish(end, cancelled)
	case why == errOver:
		return false, h.fail(&tasks.FailedError{Text: errExpired.Text + became(report)}, report)
	case errors.As(why, new(*goneError)) && h.program.Kind == engine.KindTool: // as with one that its client drives
		return false, h.finish(&turns.End{Outcome: *engine.UndoneWith(report, why.Error(), true)}, completed)
	}
	return false, h.fail(why, report)
}

// Pauses between attempts to undo.
const (
	firstUndo = time.Minute
	lastUndo  = 6 * time.Hour
)

// errBreaks is why an undo is left for later that takes servers down.
var errBreaks = errors.New("each server that tried to undo it went down, or lost it")

// undoLater leaves a saga for later that could not be undone, and for operators in the end.
func (h *hold) undoLater(why error) error {
	h.undoErr = why
	return h.commit(func(r *row) []event {
		status := store.Undoing
		if r.Status.Over() {
			status = r.Status
		}
		h.rest(r, status, h.c.notUndoneYet(r, why))
		return []event{{kind: kindRest, body: body{Text: r.Running.LastError}}}
	})
}

// notUndoneYet notes within a change that an undo has failed, and returns when to try again; zero if the
// saga is given up.
func (c *Core) notUndoneYet(r *row, why error) time.Time {
	now := r.now()
	if r.Running.Failures++; r.Running.Failing.IsZero() {
		r.Running.Failing = now
	}
	if why != nil {
		r.Running.LastError = clip(why.Error())
	}
	attrs := []any{"tool", r.Tool, "saga", r.Saga.String(), "attempts", r.Running.Failures, "error", why}
	failing := now.Sub(r.Running.Failing)
	if failing >= turns.UndoFor {
		c.Turns.Log.Error("a saga cannot be undone, and will not be tried again", attrs...)
		r.Times.Keep = later(r.Times.Keep, now.Add(turns.KeepOutstanding))
		return time.Time{}
	}
	c.Turns.Log.Error("a saga cannot be undone, and will be tried again", attrs...)
	// As long again as it has failed by now: the pauses double, and a client that cancels again and
	// again meanwhile does not make them longer.
	return now.Add(min(max(failing, firstUndo), lastUndo))
}

// undoAgain tries again to undo what could not be undone. How the saga has ended stays as it is.
func (h *hold) undoAgain(r *row) error {
	again, effects, told, final := r.Again, []string(nil), []byte(nil), false
	var why error // it is still to be undone
	pos, err := decodePosition(again, r.Saga)
	if err == nil && pos != nil {
		turn := turns.TaskTurn{
			Call:     engine.Call{Now: r.now(), Acting: h.acting, Undoing: func(ctx context.Context, _ engine.Undoing) error { return h.acting(ctx) }},
			Identity: turns.Identity{Program: h.program, Saga: r.Saga}, Position: pos, Trace: r.Begun.Trace, Caller: turns.Caller{Principal: r.Principal}, Who: r.caller(), Hooked: h.hooked,
		}
		var end turns.End
		end, err = h.c.Turns.UndoTask(h.ctx, turn, false, h.served, "")
		if report := turns.UndoReport(end.Result); report.TooLate() {
			end.Outcome = *engine.Cancelled(report.InPart(), "")
		}
		if err == nil && r.Client != nil {
			h.undoEnd = &end
			told, err = h.sealedUndo(r, &end)
		}
		h.undoErr = err
		if report := turns.UndoReport(end.Result); err == nil && report != nil {
			effects, why, final = report.Outstanding, end.Err, report.Final != ""
			again = encodeAgain(report)
		}
	}
	return h.commit(func(r *row) []event {
		e := event{kind: kindUndone, body: body{Effects: effects}}
		if r.Cancelled, r.Final = false, r.Final || final; told != nil {
			r.Client.Report, r.Effects = told, effects
		}
		if r.Again = again; len(again) == 0 {
			r.Running = running{}
			h.rest(r, store.Ended, time.Time{})
			return []event{e}
		}
		h.rest(r, store.Outstanding, h.c.notUndoneYet(r, cmp.Or(err, why)))
		e.Text = r.Running.LastError
		return []event{e}
	})
}
