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
	var end End
	switch {
	case r.Hook != nil:
		refused := err
		end, err = r.around(ctx, hookedOpen("cancel", &q, o), func(ctx context.Context) (End, error) {
			if refused != nil {
				return End{}, refused
			}
			return r.cancel(ctx, &q, o)
		})
	case err == nil:
		end, err = r.cancel(ctx, &q, o)
	}
	if err != nil {
		err = r.report(ctx, q.Method, err)
	}
	return end, err
}

// cancel ends a saga from an opened token on.
func (r *Runner) cancel(ctx context.Context, brought *Request, o *opened) (End, error) {
	if r.remembers(o.program) {
		return r.cancelOnce(ctx, brought, o)
	}
	q := *brought
	answered := len(q.Answers) > 0
	turn := r.begin(ctx)
	defer turn.Cancel()
	res := engine.Resumption{Now: r.Now()}
	if o.gone != nil {
		r.logAbandoned(turn, o)
	} else {
		res.Client, res.Answers, res.Notifier = r.Features(q.Client), q.Answers, q.Notifier
		if q.Policy.Resent && answered {
			res.Arguments = orEmpty(q.Arguments)
		}
	}
	out, err := o.program.Cancel(turn, o.pos, res)
	carryEnd(out, o.pos)
	switch {
	case err != nil:
	case o.gone != nil && answered: // no turn is taken any more
		out.Result.Content = append(out.Result.Content, content.Resultf(engine.LostTurn).Content...)
	case out.Result == nil:
		// The answers ended a prompt or a resource, whose ends are no tool results.
		ended := *out
		ended.Result = content.Resultf("It was too late to cancel: the %v has ended.", o.program.Kind)
		out = &ended
	}
	q.Arguments, q.Answers = nil, nil // what cannot be undone is not the request's doing
	q.Policy.UndoBroken = false       // no turn comes after it
	return r.finish(turn, &q, o.identity, out, err, false, nil)
}

// undoBroken undoes a saga whose turn broke off and cannot be taken again, unless the
// engine has.
func (r *Runner) undoBroken(ctx context.Context, of identity, pos *engine.Position, why error, m *memory) error {
	var undone *engine.UndoneError
	if errors.As(why, &undone) {
		return why
	}
	if m != nil {
		return r.undoRemembered(ctx, of, pos, why, m)
	}
	if pos != nil && pos.HasEffects() {
		// The turn may be over: undoing has time of its own.
		out, err := of.program.Cancel(ctx, pos, engine.Resumption{Now: r.Now()})
		if err == nil {
			err = out.Err
		}
		if err != nil {
			r.Log.ErrorContext(ctx, "effects of a saga that failed were not undone", "tool", of.program.Name, "saga", of.id.String(), "error", err)
		}
	}
	return &engine.UndoneError{Err: why}
}

// undoRemembered is undoBroken for a saga that is remembered: what cannot be undone now is for
// workers.
func (r *Runner) undoRemembered(ctx context.Context, of identity, pos *engine.Position, why error, m *memory) error {
	if pos == nil || !pos.HasEffects() {
		return &engine.UndoneError{Err: why}
	}
	claim := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, recordTime)
		defer cancel()
		return m.claim(ctx)
	}
	out, err := of.program.Cancel(ctx, pos, engine.Resumption{Now: r.Now(), Acting: claim, Undoing: m.undoing})
	if errors.As(err, new(*engine.HaltedError)) {
		return &engine.HaltedError{Err: errors.Join(err, why)}
	}
	if err != nil {
		return &engine.UndoneError{Err: errors.Join(err, why)}
	}
	return &engine.UndoneError{Err: errors.Join(why, out.Err), Report: undoReport(out.Result)}
}
