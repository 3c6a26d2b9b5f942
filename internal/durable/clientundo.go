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
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// A client that cancels its saga, or comes too late, has this process acquire the row and drive it
// to its end, as a worker does with a saga that is abandoned.

// undoRequest is why a client's request has its saga undone.
type undoRequest struct {
	q   *turns.Request
	o   *turns.Opened
	why error
}

// goneError is why a saga that its client drives is undone.
type goneError struct{ reason tokens.Reason }

// Error implements error.
func (e *goneError) Error() string { return turns.GoneText(e.reason) }

// goneWhy is why the saga of a token cannot go on; nil if it can.
func goneWhy(o *turns.Opened) error {
	if o.Gone() == nil {
		return nil
	}
	return &goneError{o.Gone().Reason}
}

// driveHere acquires a row, or makes it as the token of u says, and drives it to its end. It fails with
// [errOvertaken] if another process has it, or has changed it.
func (c *Core) driveHere(ctx context.Context, r *row, u *undoRequest) (*turns.End, error) {
	next, err := c.rowToUndo(r, u)
	if err != nil {
		return nil, err
	}
	if u != nil && u.why == errCancelled {
		next.Cancelled = true
	}
	lost := next.Client.Turn != nil
	next.Running = running{Held: true, Doubt: lost, Tries: next.Running.Tries + 1}
	if !next.Status.Over() {
		next.Status = store.Undoing
	}
	next.Wake, next.Keep = dueAt(next.now()), time.Time{}
	writing, cancel := writing(ctx)
	defer cancel()
	term := c.term()
	if err := c.rows.write(writing, next, term.takes, max(0, c.MaxSagas), event{kind: kindCancel, body: body{Text: "undone at a client's request"}}); err != nil {
		if errors.Is(err, store.ErrConflict) {
			return nil, errOvertaken
		}
		return nil, fullLedger(err)
	}
	h := c.newHold(context.WithoutCancel(ctx), next, term)
	h.client, h.hooked = true, true
	h.doubt, h.tries = lost, 1
	if u != nil {
		h.why, h.notes.client = u.why, u.q.Notifier
	}
	if u != nil && u.o != nil && h.program == nil {
		h.program = u.o.Program()
	}
	c.worker.enter(h)
	defer c.worker.release(h)
	defer h.notes.stop()
	err = engine.Protect(h.drive)
	switch {
	case errors.Is(err, errLost):
		return nil, errOvertaken
	case err == nil && h.undoEnd == nil:
		return nil, cmp.Or(h.undoErr, ErrUnavailable)
	}
	return h.undoEnd, err
}

// rowToUndo is the next version of a row that is to be undone: it stands where the client's token says, or
// further on.
func (c *Core) rowToUndo(r *row, u *undoRequest) (*row, error) {
	if r != nil {
		next := r.clone()
		next.Fence++
		own := *r.Client
		next.Client = &own
		if u == nil || r.Status.Over() {
			return next, nil
		}
		at, err := decodePosition(r.Stand.Position, r.Saga)
		if err != nil || at != nil && (own.Turn != nil || at.Turn >= u.o.Position().Turn) {
			return next, err
		}
		r = next
	} else {
		r = c.newClientRow(u.q, u.o.Program(), u.o.Saga())
	}
	pos := u.o.Position()
	if u.q.Policy.Resent && len(u.q.Arguments) > 0 {
		r.Begun.Arguments = u.q.Arguments
	}
	raw, err := encodePosition(pos, r.Begun.Arguments == nil)
	if err != nil {
		return nil, err
	}
	r.Stand = stand{Position: raw}
	s := r.Client
	s.At, s.Undoable, s.Effects, s.Expires = pos.Turn, s.Undoable || pos.HasEffects(), pos.Effects(), later(s.Expires, u.o.Expires())
	if len(u.q.Answers) > 0 && u.o.Gone() == nil {
		// What a turn with them did is undone as well: its response may have been lost.
		r.Stand.Answers = keptAnswers(u.q.Answers)
		s.Turn = &begunTurn{From: pos.Turn, Digest: turns.Digest(pos, u.q.Answers), Purpose: u.q.Policy.Purpose, Now: c.Turns.Now()}
	}
	return r, nil
}

// CancelOnce implements [turns.Memory].
func (c *Core) CancelOnce(ctx context.Context, q *turns.Request, o *turns.Opened) (turns.End, error) {
	turn := c.Turns.Begin(ctx)
	defer turn.Cancel()
	fail := func(err error) (turns.End, error) {
		return turns.End{}, c.Turns.Failed(o.Program(), o.Saga(), spent(err))
	}
	digest := turns.Digest(o.Position(), q.Answers)
	for {
		r, err := c.rows.load(turn, c.rows.sagaID(q.Principal, o.Saga()))
		switch {
		case err != nil:
			return fail(err)
		case turn.Err() != nil:
			return fail(context.Cause(turn))
		case o.TooLate() && r == nil:
			return turns.End{}, o.Gone()
		case r != nil && r.Client == nil:
			end, err := c.cancelTask(turn, r)
			if err != nil {
				return fail(err)
			}
			return *end, nil
		case r != nil && r.Status == store.Ended:
			return c.whatBecame(o, r, digest)
		case r != nil && r.Until.After(r.now()):
			if err := c.awaitTurn(turn, r); err != nil {
				return fail(err)
			}
			continue
		}
		if r == nil && o.Gone() == nil && len(q.Answers) > 0 {
			// No turn with answers that are none was lost.
			if err := o.Program().CheckAnswers(o.Position(), q.Answers); err != nil {
				return fail(err)
			}
		}
		end, err := c.driveHere(turn, r, &undoRequest{q: q, o: o, why: errCancelled})
		switch {
		case errors.Is(err, errOvertaken):
			continue
		case err != nil:
			return fail(err)
		case end.Result == nil: // the end of a prompt or a resource, which are no tool results
			return tooLate(o, *end), nil
		}
		end.Gone = ""
		return *end, nil
	}
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
		return turns.End{}, c.Turns.Failed(o.Program(), o.Saga(), err)
	}
	if failure != nil || end.Result == nil {
		return tooLate(o, end), nil
	}
	lost := r.Client.How == howTurn && r.Client.From == o.Position().Turn && bytes.Equal(r.Client.Digest, digest)
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
		result = content.Result{IsError: true, Content: append(text, result.Content...)}
	} else {
		result.IsError = false
	}
	end.Result, end.Gone = &result, ""
	return end
}

// tooLate is the answer to a client that cancels a prompt or a resource that has ended.
func tooLate(o *turns.Opened, end turns.End) turns.End {
	end.Outcome = engine.Outcome{Result: content.Resultf("It was too late to cancel: the %v has ended.", o.Program().Kind)}
	return end
}

// clientWhy is why a saga that its client drives is undone now.
func (h *hold) clientWhy(r *row) error {
	switch {
	case r.Cancelled:
		return errCancelled
	case h.why != nil:
		return h.why
	case r.UndoNow:
		return &goneError{turns.ReasonOperator}
	}
	return &goneError{tokens.ReasonExpired}
}

// clientUndone ends a saga that its client drives, which was undone for the reason why, or leaves it as it was
// if it is too late to cancel it.
func (h *hold) clientUndone(r *row, end *turns.End, why error) error {
	report := turns.UndoReport(end.Result)
	h.undoEnd = end
	if why == errCancelled && report.TooLate() && (r.Undoing == nil || h.beganUndo && !isOver(r, r.now())) {
		return h.commit(func(r *row) []event {
			r.Cancelled, r.Undoing = false, nil
			h.rest(r, store.Waiting, time.Time{})
			r.Running.Doubt = r.Client.Turn != nil
			if r.Client.Undoable {
				r.Wake = r.due()
			}
			return []event{{kind: kindTurn, body: body{Text: "too late to cancel"}}}
		})
	}
	as := howAbandoned
	var gone *goneError
	switch {
	case report == nil || why == nil: // the turn was not lost after all
		as = howTurn
	case r.Client.Turn != nil && r.Client.Turn.Once, r.Client.Purpose == turns.Held.Purpose, errors.Is(why, errUndone):
		as = howBroken // its client does not know, and begins again
	case why == errCancelled:
		as = howCancelled
	case errors.As(why, &gone):
		result := *end.Result
		result.IsError = true
		end.Result, end.Gone = &result, gone.reason
	}
	if err := h.c.Turns.SealUndo(h.ctx, r.Principal, h.program, end); err != nil {
		return err
	}
	raw, err := turns.EncodeResponse(end, nil)
	if err != nil {
		return err
	}
	var again []byte
	if report != nil && report.Again != nil {
		if again, err = encodePosition(report.Again, true); err != nil {
			return err
		}
	}
	err = h.commit(func(r *row) []event {
		c := *r.Client
		r.Client = &c
		if r.Status.Over() {
			c.Report = raw // what is to be said of its last turn has been said
		} else {
			turn := c.Turn
			c.How, c.From, c.Digest, c.Response, c.Report = as, c.At, nil, raw, nil
			if as == howTurn && turn != nil {
				c.From, c.Digest = turn.From, turn.Digest
			}
		}
		h.rest(r, store.Ended, time.Time{})
		return h.c.endClient(r, end, again)
	})
	if err == nil && report != nil && len(report.Outstanding) == 0 && why != errCancelled {
		h.c.Turns.Log.Info("abandoned saga undone", "tool", r.Tool, "saga", r.Saga.String(), "effects", report.Undone)
	}
	return err
}

// driveClient ends a saga that its client drives, if it is time for that.
func (h *hold) driveClient(r *row, now time.Time) error {
	lost := r.Client.Turn
	due := r.Cancelled || r.UndoNow || h.why != nil || lost != nil && lost.Once || r.Client.Undoable && isOver(r, now) || lost != nil && isOver(r, now)
	if !due { // it was woken for nothing
		return h.commit(func(r *row) []event {
			h.rest(r, r.Status, r.due())
			return []event{{kind: kindRest}}
		})
	}
	if lost != nil && !h.served && len(r.Stand.Position) == 0 {
		// Only its own revision finds what the first turn did, so the saga is left to a server that has it.
		return h.undoLater(fmt.Errorf("a turn was lost, and revision %d of the tool is not served here, which alone can find what it did", r.Revision))
	}
	_, err := h.undoFrom(r, h.clientWhy(r), lost != nil && h.tries <= h.c.Attempts)
	return err
}
