package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	return h.undoFrom(r, why, h.doubt && why != errAttempts) // what it runs is what breaks servers
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
	turn.Answers = pending(turn.Position, turn.Answers)
	text := ""
	switch why {
	case errCancelled:
	case errOver:
		text = errExpired.Text
	default:
		text = why.Error()
	}
	end, err := h.c.Turns.UndoTask(h.ctx, turn, doubt, h.served, text)
	switch {
	case err != nil:
		return false, h.notUndone(err)
	case r.Client != nil:
		r, _, _ = h.look() // which says by now what is being undone
		return false, h.clientUndone(r, &end, why)
	}
	return h.wasUndone(&end, why)
}

// pending are those of the answers that a position waits for.
func pending(pos *engine.Position, answers []steps.Answer) []steps.Answer {
	if pos == nil {
		return nil
	}
	ids := pos.PendingIDs()
	return slices.DeleteFunc(slices.Clone(answers), func(a steps.Answer) bool { return !slices.Contains(ids, a.StepID) })
}

// markOf says what is being undone for a reason.
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
var errUndone = errors.New("another server has begun to undo the task")

// undoing returns what is called before anything is undone, for the reason why; nil is how the
// turn has ended. It fails if another process has the saga, with which it may go on: the store is
// asked, as a clock may have stood still.
func (h *hold) undoing(why error) func(context.Context, engine.Undoing) error {
	return func(_ context.Context, u engine.Undoing) error {
		mark := markOf(why)
		if why == nil && (u.Outcome != nil || u.Err != nil) {
			raw, err := turns.EncodeUndoing(u)
			if err != nil {
				return err
			}
			mark.Response = raw
		} else if cut := h.stopped(); why == nil && (cut == errCancelled || cut == errOver) { // it was cut off, or broke
			mark = markOf(cut)
		}
		position, err := encodePosition(u.Position, true)
		if err != nil {
			return err
		}
		mark.Position, mark.Behind = position, u.Behind
		if h.undone && h.sure() {
			return nil // the checkpoint before it has written it just now
		}
		put := func(r *row) []event {
			switch {
			case r.Undoing == nil:
				r.Undoing, h.beganUndo = mark, true
			case u.Behind:
				before := *r.Undoing
				before.Behind = true
				r.Undoing = &before
			}
			r.Status = store.Undoing
			return []event{{kind: kindUndoing, body: body{Effects: u.Position.Effects(), Text: r.Undoing.Text}}}
		}
		err = h.commit(put)
		if errors.Is(err, store.ErrTooLarge) {
			mark.Response = nil
			err = h.commit(put)
		}
		if errors.Is(err, store.ErrTooLarge) { // the saga's own position may know nearly as much
			mark.Position = nil
			err = h.commit(put)
		}
		return err
	}
}

// sure reports whether the saga is this process's, without asking the store.
func (h *hold) sure() bool {
	h.lock()
	defer h.unlock()
	return !h.lost && !h.lease.expired(h.c.term())
}

// goOnUndoing ends a saga whose undo was begun.
func (h *hold) goOnUndoing(r *row) (again bool, err error) {
	why, text := r.Undoing.reason(), ""
	switch {
	case r.Client == nil:
	case r.Cancelled && why != nil:
		why = errCancelled
	case errors.As(why, new(*goneError)):
		text = why.Error()
	}
	turn, err := h.taskTurn(r, r.now(), why)
	if err == nil && len(r.Undoing.Position) > 0 {
		turn.Position, err = decodePosition(r.Undoing.Position, r.Saga)
	}
	if err != nil {
		return false, h.undoLater(err)
	}
	turn.Answers, turn.Checkpoint, turn.Broken = nil, nil, nil
	end, err := h.c.Turns.GoOnUndoing(h.ctx, turn, r.Undoing.Response, text)
	switch {
	case err != nil:
		return false, h.notUndone(err)
	case r.Client != nil:
		return false, h.clientUndone(r, &end, why)
	case why == nil:
		return false, h.finish(&end, completed)
	}
	if report := turns.UndoReport(end.Result); r.Undoing.Behind && report.TooLate() {
		end.Outcome = *engine.Cancelled(nil, fmt.Sprintf("Cancelled, though %q is final. What was done before it may have been undone.", report.Final))
	}
	return h.wasUndone(&end, why)
}

// notUndone leaves a saga for later whose undo did not come to an end.
func (h *hold) notUndone(err error) error {
	switch _, lost, handing := h.look(); {
	case lost:
		return errLost
	case handing:
		return h.handOver(false)
	}
	return h.undoLater(err)
}

// wasUndone ends a saga that was undone for the reason why, or continues it, if it is too late
// to cancel it.
func (h *hold) wasUndone(end *turns.End, why error) (again bool, err error) {
	report := turns.UndoReport(end.Result)
	switch {
	case report == nil: // its turn had ended well
		return false, h.finish(end, completed)
	case why == errCancelled && report.TooLate():
		return true, h.goOnAnyway(false)
	case why == errCancelled:
		return false, h.finish(end, cancelled)
	case why == errOver:
		return false, h.fail(expired(report), report)
	}
	return false, h.fail(why, report)
}

// Pauses between attempts to undo.
const (
	firstUndo = time.Minute
	lastUndo  = 6 * time.Hour
)

// undoLater leaves a saga for later that could not be undone, and for operators in the end.
func (h *hold) undoLater(why error) error {
	h.undoErr = why
	return h.commit(func(r *row) []event {
		h.rest(r, store.Undoing, h.c.notUndoneYet(r, why))
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
	again, effects, told := r.Again, []string(nil), []byte(nil)
	var why error // it is still to be undone
	pos, err := decodePosition(again, r.Saga)
	if err == nil && pos != nil {
		turn := turns.TaskTurn{Caller: turns.Caller{Principal: r.Principal}, Program: h.program, Saga: r.Saga, Position: pos, Now: r.now(), Hooked: h.hooked, Acting: h.acting, Undoing: func(ctx context.Context, _ engine.Undoing) error { return h.acting(ctx) }}
		var end turns.End
		end, err = h.c.Turns.UndoTask(h.ctx, turn, false, h.served, "")
		if err == nil && r.Client != nil {
			h.undoEnd = &end
			if err = h.c.Turns.SealUndo(h.ctx, r.Principal, h.program, &end); err == nil {
				told, err = turns.EncodeResponse(&end, nil)
			}
		}
		h.undoErr = err
		if report := turns.UndoReport(end.Result); err == nil && report != nil {
			if again = nil; report.Again != nil {
				effects = report.Outstanding
				if again, err = encodePosition(report.Again, true); err == nil {
					why = end.Err
				}
			}
		}
	}
	return h.commit(func(r *row) []event {
		e := event{kind: kindUndone, body: body{Effects: effects}}
		if r.Cancelled = false; told != nil {
			c := *r.Client
			c.Report, c.Effects = told, effects
			r.Client = &c
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
