package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/content"
)

// Cancel ends the saga that stands at pos and undoes its effects. Its outcome is
// always finished. It fails with an *[UnsettledError] while it is not known
// whether an irreversible effect was performed; try again.
//
// If r answers all steps that are waited for, the turn is run first: the client may have
// sent those answers before, and never have heard what they did. Performing that again
// finds it by its keys. The turn stops before an irreversible effect that has an Undo, and
// continues only if that says that it was performed before. If the turn ends the saga well,
// it is too late to cancel, and the outcome is that of the turn.
//
// Otherwise, or if the tool has changed so that the turn cannot be taken, what is undone
// are the effects that pos knows of; the text of the outcome says so.
//
// If r is Held, the turn was taken before by a process that is gone, and no other will ever
// take it: it is run whether or not there are answers, and undone as well if it breaks off.
//
// If r has a Checkpoint, so had the process that took the turn before: it is run up to where that would
// have been called next, and no further. It is called if the saga continues to a good end.
//
// If r has Begun, the process that took the turn before has said what that had begun. Nothing else is performed, and
// only if there is no way back is the turn taken, to its good end.
//
// Without a position it is the first turn that was cut off and that cannot be taken again. No client has heard how it
// ended, so even if it ended well it is undone, unless there is no way back.
func (t *Program) Cancel(ctx context.Context, pos *Position, r Call) (*Outcome, error) {
	c := cancellation{t: t, pos: pos, call: r, log: new(effectLog), complete: true,
		text: "The saga's first turn was cut off, and what it did is undone."}
	if pos == nil {
		c.call.Held, c.call.Lost, c.call.Acting = true, true, nil
	} else {
		c.call.ID, c.log = pos.ID, t.logOf(pos)
		c.complete = (pos.Sent(r.Answers) || r.Held) && pos.next != "" && !r.Now.Before(pos.Wake)
		c.text = t.cancelledUpTo(pos, c.complete, &r)
	}
	if r.Begun != nil {
		c.log = t.logOf(r.Begun)
	} else if c.complete {
		if out, err := c.findOut(ctx); out != nil || err != nil {
			return out, err
		}
	}
	undo, err := t.compensate(ctx, &c.call, c.log, nil)
	switch {
	case err != nil:
		return nil, err
	case c.complete && undo.TooLate() && c.unheard != nil:
		return c.unheard, nil
	case c.complete && undo.TooLate(): // there is no way back, so the only good end is forward
		c.call.probe, c.call.Begun = nil, nil
		if out, err := c.take(ctx); err != nil || out.Position == nil {
			return out, err
		}
	}
	if r.Why != "" && undo != nil && undo.Final != "" { // no one has cancelled it
		return UndoneWith(undo, c.text, true), nil
	}
	return Cancelled(undo, c.text), nil
}

// cancellation is a saga that is being cancelled.
type cancellation struct {
	t    *Program
	pos  *Position // where it is cancelled; nil is its first turn
	call Call      // of the turn that is run from there
	// log has the effects that are to be undone.
	log *effectLog
	// complete: the turn after pos is run to find what it did.
	complete bool
	text     string
	// unheard is a good end that perhaps no client has heard of, so that it is undone.
	unheard *Outcome
}

// take takes the turn that the saga stands at.
func (c *cancellation) take(ctx context.Context) (*Outcome, error) {
	if c.pos == nil {
		return c.t.Start(ctx, c.call)
	}
	return c.t.Resume(ctx, c.pos, c.call)
}

// findOut runs the turn that may have been taken before, for its effects. If that ends the saga in a way that stands, it
// returns that end, else nil.
func (c *cancellation) findOut(ctx context.Context) (*Outcome, error) {
	c.call.probe = new(probe)
	before := c.log
	out, err := c.take(ctx)
	if c.call.probe.log != nil {
		c.log = c.call.probe.log
	}
	switch {
	case errors.As(err, new(*UndoneError)) && !errors.As(err, new(*UnsettledError)): // it broke off
		return undoneBy(err, c.text), nil
	case errors.As(err, new(*PositionError)), c.call.Held && (errors.As(err, new(*AnswerError)) || errors.As(err, new(*UnsupportedError))):
		c.complete, c.text = false, c.t.cancelledUpTo(c.pos, false, &c.call)+" "+LostTurn
		c.log = before
		return nil, nil
	case c.t.Kind != KindTool && (errors.As(err, new(*ToolError)) || errors.As(err, new(*ArgumentsError)) || errors.Is(err, ErrNotFound)):
		return undoneBy(err, c.text), nil
	case err != nil:
		return nil, err
	case out.Position != nil:
		c.log = &out.Position.log
		return nil, nil
	case c.pos != nil || out.Result != nil && out.Result.IsError:
		return endedBy(out, c.text), nil
	}
	c.unheard = out
	return nil, nil
}

// probe is what a turn knows that is run only to find what it had done, for the undo: it gets the turn's log. If the turn
// comes to an irreversible effect that has an Undo it ends before it.
type probe struct{ log *effectLog }

// stoppedError is the end of such a turn, which is then latched.
type stoppedError struct {
	where string
	// untried: the last record of the log is of the effect that it has stopped before.
	untried bool
}

func (e *stoppedError) Error() string { return "the saga is being cancelled and stops " + e.where }

// stop ends such a turn.
func (tc *Turn) stop(where string, untried bool) error {
	tc.latched = &stoppedError{where, untried}
	return tc.latched
}

// undoneBy is how a saga was cancelled whose last turn has failed with err.
func undoneBy(err error, text string) *Outcome {
	var report *UndoReport
	if undone := (*UndoneError)(nil); errors.As(err, &undone) {
		report = undone.Report
	}
	out := Cancelled(report, text)
	out.Err = errors.Join(err, out.Err)
	return out
}

// LostTurn is what a client gets that cancels with answers with which the turn
// cannot be taken any more.
const LostTurn = "What a turn with these answers did, if its response was lost, cannot be found any more."

// cancelledUpTo says how far a saga is cancelled. A client that cancels with an old
// token must not read that all is undone.
func (t *Program) cancelledUpTo(pos *Position, complete bool, r *Call) string {
	if r.Why != "" {
		return r.Why
	}
	if len(t.effects) == 0 || pos.next == "" || r.Latest {
		return "Cancelled."
	}
	text, where := "Cancelled.", "from this token"
	switch {
	case complete:
		where = "after these answers"
	case !pos.HasEffects():
		text = "Cancelled. Up to this token, the saga has done nothing that is to be undone."
	}
	return text + " If the saga went on " + where + ", what it did since then is not undone: cancel it with its latest token."
}

// endedBy is how a saga was cancelled whose last turn has ended it.
func endedBy(turn *Outcome, text string) *Outcome {
	if turn.Result == nil || !turn.Result.IsError {
		return turn
	}
	undo, _ := turn.Result.Meta[UndoMetaKey].(*UndoReport)
	if undo != nil && undo.Final != "" {
		return turn
	}
	out := Cancelled(undo, text)
	out.Err = turn.Err
	return out
}

// Abandon undoes the effects of a saga that cannot go on, as its token came too
// late, its revision is no longer served, or the tool no longer has the step
// function or question that it waits in. Why, Acting and Undoing of c count. It fails as
// [Program.Cancel] does.
func (t *Program) Abandon(ctx context.Context, pos *Position, c Call) (*Outcome, error) {
	c.ID = pos.ID
	undo, err := t.compensate(ctx, &c, t.logOf(pos), nil)
	if err != nil {
		return nil, err
	}
	return UndoneWith(undo, c.Why, true), nil
}

// Undo continues an undo whose process is gone: u is what its [Call.Undoing] was called with
// for a turn that has ended badly. It ends as that turn has, and fails as [Program.Cancel] does.
func (t *Program) Undo(ctx context.Context, u Undoing) (*Outcome, error) {
	undo, err := t.compensate(ctx, &Call{ID: u.Position.ID}, t.logOf(u.Position), nil)
	if err != nil {
		return nil, err
	}
	u.Outcome.addUndo(undo)
	return u.Outcome, nil
}

// Cancelled is the end of a saga that was cancelled, with what was undone; nil is nothing. Where it is too late, it
// says that the saga has not ended; where something was undone before what is final was found, that it has.
func Cancelled(undo *UndoReport, text string) *Outcome {
	final := undo != nil && undo.Final != ""
	switch {
	case undo.TooLate():
		text = "Not cancelled: it is too late."
	case final:
		text = fmt.Sprintf("Cancelled in part: the saga has ended, but %q is final.", undo.Final)
	}
	return UndoneWith(undo, text, final)
}

// UndoneWith is an end with a text and what was undone; nil is nothing.
func UndoneWith(undo *UndoReport, text string, isError bool) *Outcome {
	if undo == nil {
		undo = &UndoReport{Undone: []string{}, Outstanding: []string{}}
	}
	out := &Outcome{Result: content.Resultf("%s", text)}
	out.addUndo(undo)
	out.Result.IsError = isError
	return out
}
