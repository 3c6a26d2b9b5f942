package turns

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// Cancel ends the saga that the token holds and undoes its effects. With answers, what
// a turn with them did is undone as well: its response may have been lost. If the token
// is not one of q.Policy, perhaps it is one of the others.
func (r *Runner) Cancel(ctx context.Context, q Request, others ...Policy) (End, error) {
	o, err := r.open(ctx, &q, true)
	for _, other := range others {
		var rejected *tokens.Rejected
		if !errors.As(err, &rejected) || rejected.Reason != tokens.ReasonAuthentication {
			break
		}
		q.Policy = other
		o, err = r.open(ctx, &q, true)
	}
	refused := err
	end, err := r.around(ctx, r.hookedOpen("cancel", &q, o), func(ctx context.Context) (End, error) {
		if refused != nil {
			return End{}, refused
		}
		end, err := r.cancel(ctx, &q, o)
		if err == nil && r.memory != nil && o.Position.Awaits() && !UndoReport(end.Result).TooLate() {
			r.memory.Withdraw(ctx, q.Principal, o.Program, o.Position)
		}
		return end, err
	})
	if err != nil {
		err = r.Report(ctx, q.Method, err)
	}
	return end, err
}

func (r *Runner) cancel(ctx context.Context, brought *Request, o *Opened) (End, error) {
	if r.remembers(o.Program) {
		return r.memory.CancelOnce(ctx, brought, o)
	}
	q := *brought
	answered := o.Position.Sent(q.Answers)
	turn := r.Begin(ctx)
	defer turn.Cancel()
	res := engine.Call{Now: r.Now()}
	if o.Gone != nil {
		r.logAbandoned(turn, o.Identity, o.Gone)
	} else {
		res.Client, res.Answers, res.Notifier = r.Features(q.Client), q.Answers, q.Notifier
		if q.Policy.Resent && answered {
			res.Arguments = OrEmpty(q.Arguments)
		}
	}
	out, err := o.Program.Cancel(turn, o.Position, res)
	carryEnd(out, o.Position)
	switch {
	case err != nil:
	case o.Position.HasEnded() && UndoReport(out.Result).TooLate(): // it ended when the rest was undone
		out = engine.Cancelled(UndoReport(out.Result).InPart(), "")
	case o.Gone != nil && answered: // no turn is taken any more
		out.Result.Content = append(out.Result.Content, content.Resultf(engine.LostTurn).Content...)
	case out.Result == nil:
		// The answers ended a prompt or a resource, whose ends are no tool results.
		ended := *out
		ended.Result = content.Resultf("It was too late to cancel: the %v has ended.", o.Program.Kind)
		out = &ended
	}
	q.Arguments, q.Answers = nil, nil // what cannot be undone is not the request's doing
	q.Policy.UndoBroken = false       // no turn comes after it
	return r.finish(turn, &q, o.Identity, out, err, false, nil)
}

// undoBroken undoes a saga whose turn broke off and cannot be taken again, unless the
// engine has. Of one that is remembered, what cannot be undone now is for workers.
func (r *Runner) undoBroken(ctx context.Context, of Identity, pos *engine.Position, why error, m Remembered) error {
	var undone *engine.UndoneError
	switch {
	case errors.As(why, &undone):
		return why
	case pos == nil || !pos.HasEffects():
		return &engine.UndoneError{Err: why}
	}
	c := engine.Call{Now: r.Now()}
	if m != nil {
		c.Acting = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, undoTime)
			defer cancel()
			return m.Acting(ctx)
		}
		c.Undoing = m.Undoing
	}
	out, err := of.Program.Cancel(ctx, pos, c) // the turn may be over: undoing has time of its own
	switch {
	case errors.As(err, new(*engine.HaltedError)):
		return &engine.HaltedError{Err: errors.Join(err, why)}
	case err != nil && m != nil:
		return &engine.UndoneError{Err: errors.Join(err, why)}
	case err != nil: // what the report says is logged with that
		r.Log.ErrorContext(ctx, "effects of a saga that failed were not undone", "tool", of.Program.Name, "saga", of.Saga.String(), "error", err)
		return &engine.UndoneError{Err: why}
	case m != nil:
		why = errors.Join(why, out.Err)
	}
	return &engine.UndoneError{Err: why, Report: UndoReport(out.Result)}
}
