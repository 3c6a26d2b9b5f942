package engine

import (
	"context"
	"errors"

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
// If r has a GoesOn, the process that took the turn may have gone on by itself, and the turns that it says
// are run as well. They stop before every irreversible effect: whether the client was to come to that
// cannot be known. If they end the saga well, it is undone all the same.
//
// If r has a Checkpoint, so had the process that took the turn before: it is run up to where that would
// have been called next, and no further. It is called if the saga continues to a good end.
func (t *Program) Cancel(ctx context.Context, pos *Position, r Resumption) (*Outcome, error) {
	log := t.logOf(pos)
	complete := (len(r.Answers) > 0 || r.Held) && pos.next != "" && !r.Now.Before(pos.Wake)
	text := t.cancelledUpTo(pos, complete, &r)
	at, inner := pos, false
	for run := complete; run; {
		r.toUndo, r.inner = true, inner
		r.logged = func(l *effectLog) { log = l }
		before := log
		out, err := t.Resume(ctx, at, r)
		switch {
		case broken(err):
			return undoneBy(err, text), nil
		case inner && (errors.As(err, new(*PositionError)) || refusedAnswers(err)): // so no process has come further
			log, run = before, false
			continue
		case errors.As(err, new(*PositionError)), r.Held && refusedAnswers(err):
			complete, text = false, t.cancelledUpTo(pos, false, &r)+" "+LostTurn
			log, run = before, false
			continue
		case t.Kind != KindTool && hasEnded(err):
			return undoneBy(err, text), nil
		case err != nil:
			return nil, err
		case out.Position == nil && (!inner || out.Result != nil && out.Result.IsError):
			return endedBy(out, text), nil
		case out.Position == nil: // perhaps no client has heard, so it is undone
			run = false
			continue
		}
		if log, run = out.Position.log, false; log == nil { // it has done nothing
			log = new(effectLog)
		}
		if r.GoesOn == nil || out.Position.next == "" || t.final(log) != "" {
			continue
		}
		next, err := r.GoesOn(ctx, out)
		if err != nil {
			return nil, err
		}
		if next != nil {
			next.Why, next.Latest, next.GoesOn = r.Why, r.Latest, r.GoesOn
			next.Acting, next.Undoing = r.Acting, r.Undoing
			r, at, run, inner = *next, out.Position, true, true
			r.Held = true // the process that took it is gone
		}
	}
	undo, err := t.compensate(ctx, pos.ID, log, fence{acting: r.Acting, undoing: r.Undoing})
	if err != nil {
		return nil, err
	}
	if complete && undo.TooLate() {
		// There is no way back, so the only good end is forward.
		r.toUndo, r.inner = false, false
		if out, err := t.Resume(ctx, at, r); err != nil || out.Position == nil {
			return out, err
		}
	}
	return Cancelled(undo, text), nil
}

// CancelFirst undoes what the first turn of a saga did that was cut off and that cannot
// be taken again. It runs that turn, which finds by their keys what was performed before, and
// stops as [Program.Cancel] does. No client has heard how the turn ended, so even if it ended
// well it is undone, unless there is no way back. It fails as [Program.Cancel] does.
func (t *Program) CancelFirst(ctx context.Context, call Call) (*Outcome, error) {
	const text = "The saga's first turn was cut off, and what it did is undone."
	call.Held, call.Lost, call.Acting = true, true, nil
	log := &effectLog{stopAtFinal: true}
	first := call
	first.log = log
	out, err := t.Start(ctx, first)
	switch {
	case broken(err):
		return undoneBy(err, text), nil
	case t.Kind != KindTool && (hasEnded(err) || errors.As(err, new(*ArgumentsError))):
		return undoneBy(err, text), nil
	case err != nil:
		return nil, err
	case out.Result != nil && out.Result.IsError:
		return endedBy(out, text), nil
	case out.Position == nil && t.final(log) != "":
		return out, nil
	}
	undo, err := t.compensate(ctx, call.ID, log, fence{undoing: call.Undoing})
	if err != nil {
		return nil, err
	}
	if undo.TooLate() && out.Position != nil {
		if out, err := t.Start(ctx, call); err != nil || out.Position == nil {
			return out, err
		}
	}
	return Cancelled(undo, text), nil
}

// broken reports whether a turn broke off that cannot be taken again, and was undone.
func broken(err error) bool {
	return errors.As(err, new(*UndoneError)) && !errors.As(err, new(*UnsettledError))
}

// refusedAnswers reports whether a turn was not taken, as far as it is known before it runs.
func refusedAnswers(err error) bool {
	return errors.As(err, new(*AnswerError)) || errors.As(err, new(*UnsupportedError))
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
func (t *Program) cancelledUpTo(pos *Position, complete bool, r *Resumption) string {
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
// function or question that it waits in. why is for the caller. It fails as
// [Program.Cancel] does.
func (t *Program) Abandon(ctx context.Context, pos *Position, why string) (*Outcome, error) {
	return t.AbandonAs(ctx, pos, Resumption{Why: why})
}

// AbandonAs is [Program.Abandon] for who remembers the saga: Why, Acting and Undoing of r count.
func (t *Program) AbandonAs(ctx context.Context, pos *Position, r Resumption) (*Outcome, error) {
	undo, err := t.compensate(ctx, pos.ID, t.logOf(pos), fence{acting: r.Acting, undoing: r.Undoing})
	if err != nil {
		return nil, err
	}
	out := Cancelled(undo, r.Why)
	out.Result.IsError = true
	return out, nil
}

// Undo continues an undo whose process is gone: u is what its [Call.Undoing] was called with
// for a turn that has ended badly. It ends as that turn has, and fails as [Program.Cancel] does.
func (t *Program) Undo(ctx context.Context, u Undoing) (*Outcome, error) {
	undo, err := t.compensate(ctx, u.Position.ID, t.logOf(u.Position), fence{})
	if err != nil {
		return nil, err
	}
	return u.end(undo)
}

// Cancelled is the end of a saga that was cancelled, with what was undone; nil is nothing.
func Cancelled(undo *UndoReport, text string) *Outcome {
	if undo == nil {
		undo = &UndoReport{Undone: []string{}, Outstanding: []string{}}
	}
	if undo.Final != "" {
		text = "Not cancelled: it is too late."
	}
	out := &Outcome{Result: content.Resultf("%s", text)}
	out.addUndo(undo)
	out.Result.IsError = undo.Final != ""
	return out
}

// hasEnded reports whether an error is the end of a prompt or a resource, whose
// results cannot say that they are errors.
func hasEnded(err error) bool {
	return errors.As(err, new(*ToolError)) || errors.Is(err, ErrNotFound)
}
