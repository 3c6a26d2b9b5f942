package durable

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// A client that cancels its saga, or comes too late, has this process acquire the row and drive it
// to its end, as a worker does with a saga that is abandoned.

// goneError is why a saga is undone that cannot go on, or whose client stays away.
type goneError struct{ reason tokens.Reason }

// Error implements error.
func (e *goneError) Error() string { return turns.GoneText(e.reason) }

// driveHere acquires a row, or makes it as the token says, which is nil if it is not known, and drives it to its
// end, for the reason why. It fails with [errOvertaken] if another process has it, or has changed it.
func (c *Core) driveHere(ctx context.Context, r *row, q *turns.Request, o *turns.Opened, why error) (turns.End, error) {
	next, err := c.rowToUndo(r, q, o)
	if err != nil {
		return turns.End{}, err
	}
	next.Granted = grantedTo(engine.CallerOf(ctx))
	h := c.holdForClient(ctx, next)
	h.hooked, h.why, h.notes.client = true, why, q.Notifier
	if o != nil && h.program == nil {
		h.program = o.Program
	}
	err = overtaken(h.commit(func(r *row) []event {
		r.Cancelled = r.Cancelled || why == errCancelled
		if !r.Status.Over() {
			r.Status = store.Undoing
		}
		return []event{{kind: kindCancel, body: body{Text: "undone at a client's request"}}}
	}))
	if err != nil {
		return turns.End{}, err
	}
	defer c.worker.release(h)
	defer h.notes.stop()
	err = engine.Protect(h.drive)
	switch {
	case err != nil:
		return turns.End{}, overtaken(err)
	case h.undoEnd == nil:
		return turns.End{}, cmp.Or(h.undoErr, ErrUnavailable)
	}
	return *h.undoEnd, nil
}

// rowToUndo is the next version of a row that is to be undone: it stands where the client's token says, or
// further on.
func (c *Core) rowToUndo(r *row, q *turns.Request, o *turns.Opened) (*row, error) {
	if r != nil {
		next := r.clone()
		if o == nil || r.Status.Over() {
			return next, nil
		}
		at, err := decodePosition(r.Stand.Position, r.Saga)
		if err != nil || at != nil && (r.Client.Turn != nil || at.Turn >= o.Position.Turn) {
			return next, err
		}
		r = next
	} else {
		r = c.newClientRow(q, o.Program, o.Saga)
	}
	pos := o.Position
	if q.Policy.Resent && len(q.Arguments) > 0 {
		r.Begun.Arguments = q.Arguments
	}
	r.Stand = stand{Position: r.encode(pos)}
	s := r.Client
	s.At, s.Undoable, s.Expires, r.Effects = pos.Turn, s.Undoable || pos.HasEffects(), later(s.Expires, o.Expires), pos.Effects()
	if pos.Sent(q.Answers) && o.Gone == nil {
		// What a turn with them did is undone as well: its response may have been lost.
		r.Stand.Answers = q.Answers
		s.Turn = &begunTurn{From: pos.Turn, Digest: turns.Digest(pos, q.Answers), Purpose: q.Policy.Purpose, Now: c.Turns.Now()}
	}
	return r, nil
}

// CancelOnce implements [turns.Memory].
func (c *Core) CancelOnce(ctx context.Context, q *turns.Request, o *turns.Opened) (turns.End, error) {
	digest := turns.Digest(o.Position, q.Answers)
	return c.attendOpened(ctx, q, o, func(turn context.Context, r *row) (turns.End, error) {
		switch {
		case r == nil && o.TooLate():
			return turns.End{}, o.Gone
		case r == nil && o.Gone == nil && len(q.Answers) > 0:
			// No turn with answers that are none was lost.
			if err := o.Program.CheckAnswers(o.Position, q.Answers); err != nil {
				return turns.End{}, err
			}
		case r == nil:
		case r.Client == nil:
			return c.cancelTask(turn, r)
		case r.Status == store.Ended:
			return c.whatBecame(o, r, digest)
		case r.Until.After(r.now()):
			return turns.End{}, c.awaitTurn(turn, r)
		}
		end, err := c.driveHere(turn, r, q, o, errCancelled)
		switch {
		case err != nil:
			return turns.End{}, err
		case end.Result == nil: // the end of a prompt or a resource, which are no tool results
			return tooLate(o, end), nil
		}
		end.Gone = ""
		return end, nil
	})
}

// cancelTask cancels the task that a saga has become, for a client that has a token of the saga. It waits
// until the task has ended, and returns what became of it.
func (c *Core) cancelTask(ctx context.Context, r *row) (turns.End, error) {
	find := c.loading(ctx, r.ID)
	if _, err := c.input(ctx, find, cancelInput); err != nil {
		return turns.End{}, err
	}
	for r, err := range c.follow(ctx, r.ID, nil, find) {
		switch {
		case ctx.Err() != nil:
			return turns.End{}, turns.UnderWay(ctx) // the same request waits on
		case err != nil:
			return turns.End{}, err
		case r.Status.Over():
			return c.taskEnded(r)
		case r.Final && !r.Cancelled && r.Undoing == nil:
			return failedEnd("Not cancelled: it is too late. The saga goes on as a task."), nil
		}
	}
	return turns.End{}, turns.UnderWay(ctx)
}

func (c *Core) taskEnded(r *row) (turns.End, error) {
	t, err := c.view(r)
	if err != nil {
		return turns.End{}, err
	}
	var failure *tasks.FailedError
	switch {
	case t.Status == tasks.Cancelled:
		return *t.End, nil
	case t.End != nil && t.End.Result != nil:
		return endedBefore(*t.End), nil
	case errors.As(t.Err, &failure):
		return failedEnd("Not cancelled: the saga has failed before. " + failure.Text), nil
	}
	return failedEnd("Not cancelled: the saga has failed before."), nil
}

func failedEnd(text string) turns.End {
	result := content.Resultf("%s", text)
	result.IsError = true
	return turns.End{Outcome: engine.Outcome{Result: result}}
}

// whatBecame tells a client that cancels what became of a saga that has ended.
func (c *Core) whatBecame(o *turns.Opened, r *row, digest []byte) (turns.End, error) {
	raw := r.Client.Response
	if r.Client.Report != nil {
		raw = r.Client.Report
	}
	if raw == nil {
		return turns.End{Outcome: engine.Outcome{Result: content.Resultf("The saga has ended before.")}}, nil
	}
	end, failure, err := turns.DecodeResponse(raw)
	if err != nil {
		return turns.End{}, c.Turns.Failed(o.Identity, err)
	}
	if failure != nil || end.Result == nil {
		return tooLate(o, end), nil
	}
	if report := turns.UndoReport(end.Result); r.Client.How == howCancelled && report != nil && report.Final != "" {
		end.Gone = ""
		return end, nil // as it was told before
	}
	lost := r.Client.How == howTurn && r.Client.From == o.Position.Turn && bytes.Equal(r.Client.Digest, digest)
	if lost && turns.UndoReport(end.Result) == nil { // the response was lost, which is why it is cancelled
		end.Gone = ""
		return end, nil
	}
	return endedBefore(end), nil
}

// endedBefore is the answer to a client that cancels a saga that has ended with a result.
func endedBefore(end turns.End) turns.End {
	result := *end.Result
	if report := turns.UndoReport(&result); report == nil || report.Final != "" {
		text := content.Resultf("Not cancelled: it is too late. The saga has ended:").Content
		result = content.Result{IsError: true, Content: append(text, result.Content...), Meta: result.Meta}
	} else {
		result.IsError = false
	}
	end.Result, end.Gone = &result, ""
	return end
}

// tooLate is the answer to a client that cancels a prompt or a resource that has ended.
func tooLate(o *turns.Opened, end turns.End) turns.End {
	end.Outcome = engine.Outcome{Result: content.Resultf("It was too late to cancel: the %v has ended.", o.Program.Kind)}
	return end
}

// clientUndone ends a saga that its client drives, which was undone for the reason why, or leaves it as it was
// if it is too late to cancel it.
func (h *hold) clientUndone(r *row, end *turns.End, why error) error {
	report := turns.UndoReport(end.Result)
	h.undoEnd = end
	canGoOn := r.Undoing == nil || h.beganUndo && !isOver(r, r.now()) // another process may have undone something
	var gone *goneError
	operator := errors.As(why, &gone) && gone.reason == turns.ReasonOperator
	if (why == errCancelled || operator) && report.TooLate() && canGoOn {
		return h.notCancelled(operator)
	}
	if why == errCancelled && report.TooLate() {
		end.Outcome = *engine.Cancelled(report.InPart(), "")
	}
	as := howUndone(r, report, why)
	if as == howAbandoned && gone != nil {
		result := *end.Result
		result.IsError = true
		end.Result, end.Gone = &result, gone.reason
	}
	raw, err := h.sealedUndo(r, end)
	if err != nil {
		return err
	}
	err = h.commit(func(r *row) []event {
		if c := r.Client; as == howTurn && c.Turn != nil {
			c.answered(as, c.Turn.From, c.Turn.Digest, raw)
		} else {
			c.answered(as, c.At, nil, raw)
		}
		return h.c.endClient(r, end, report)
	})
	if err == nil && report != nil && len(report.Outstanding) == 0 && why != errCancelled {
		h.c.Turns.Log.Info("abandoned saga undone", "tool", r.Tool, "saga", r.Saga.String(), "effects", report.Undone)
	}
	return err
}

// notCancelled has a saga that it is too late to cancel wait for its client as before. An operator who wanted it undone
// learns by final that it is not.
func (h *hold) notCancelled(final bool) error {
	return h.commit(func(r *row) []event {
		r.Cancelled, r.UndoNow, r.Undoing, r.Final = false, false, nil, r.Final || final
		h.rest(r, store.Waiting, time.Time{})
		r.Running.Doubt = r.Client.Turn != nil
		if r.Client.Undoable || r.Client.Turn != nil {
			r.Wake = r.due()
		}
		return []event{{kind: kindTurn, body: body{Text: "too late to cancel"}}}
	})
}

// howUndone says what the last turn was of a saga that was undone for the reason why.
func howUndone(r *row, report *engine.UndoReport, why error) how {
	lost := r.Client.Turn
	switch {
	case report == nil, why == nil: // the turn was not lost after all
		return howTurn
	case lost != nil && lost.Once, r.Client.Purpose == turns.Held.Purpose && r.Client.Page == 0, errors.Is(why, errUndone):
		return howBroken // its client does not know, and begins again
	case why == errCancelled:
		return howCancelled
	}
	return howAbandoned
}

// sealedUndo encodes the end of an undo for the client, with a token to have tried again what is outstanding.
func (h *hold) sealedUndo(r *row, end *turns.End) ([]byte, error) {
	if err := h.c.Turns.SealUndo(h.ctx, r.Principal, h.program, end); err != nil {
		return nil, err
	}
	return turns.EncodeResponse(end, nil)
}

// driveClient ends a saga that its client drives, if it is time for that.
func (h *hold) driveClient(r *row, now time.Time) error {
	lost := r.Client.Turn
	wanted := r.Cancelled || r.UndoNow || h.why != nil
	abandoned := isOver(r, now) && (r.Client.Undoable || lost != nil)
	hopeless := lost != nil && lost.Once    // no client can ask for the turn again
	if !wanted && !abandoned && !hopeless { // it was woken for nothing
		return h.commit(func(r *row) []event {
			return h.rest(r, r.Status, r.due())
		})
	}
	if lost != nil && lost.Did == nil && !h.served && len(r.Stand.Position) == 0 {
		// Only its own revision finds what the first turn did, so the saga is left to a server that has it.
		return h.undoLater(fmt.Errorf("a turn was lost, and revision %d of the tool is not served here, which alone can find what it did", r.Revision))
	}
	var why error = &goneError{tokens.ReasonExpired}
	switch {
	case r.Cancelled:
		why = errCancelled
	case h.why != nil:
		why = h.why
	case r.UndoNow:
		why = &goneError{turns.ReasonOperator}
	}
	_, err := h.undoFrom(r, why, lost != nil && h.tries <= h.c.Attempts)
	return err
}
