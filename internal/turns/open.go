package turns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// opened is an authentic token: the position it holds and what goes on from it.
type opened struct {
	program *engine.Program
	pos     *engine.Position
	// gone is why the saga cannot go on though it has begun effects, which are to
	// be undone: its token came too late, its revision is no longer served, or the
	// tool has no longer what it waits in.
	gone *codec.Rejected
}

func (o *opened) identity() identity { return identity{o.program, codec.ID(o.pos.ID)} }

// open returns what a token holds, if a turn can be taken from there or its saga is to be
// undone.
func (r *Runner) open(q *Request) (*opened, error) {
	o, early, err := r.authentic(q, true)
	if err == nil && early != nil {
		err = &Error{program: o.program.Name, saga: o.pos.ID, Err: fmt.Errorf("%w: %v", ErrEarly, early.Detail)}
	}
	return o, err
}

// authentic returns what a token holds, and the trace context in q. The arguments of the first turn, where requests
// repeat them, count only if bound says so. If early is set, the token is of the future:
// the saga can go on when the clocks agree. Errors are of those that [Error] lists.
func (r *Runner) authentic(q *Request, bound bool) (o *opened, early *codec.Rejected, err error) {
	now := r.Now()
	x, untimely, err := r.Codec.OpenAnyTime(q.binding(), now, q.Token)
	if err != nil {
		return nil, nil, refused(err)
	}
	untimely, early, err = r.timely(q, now, x, untimely)
	if err != nil {
		return nil, nil, err
	}
	kind, name := parseTarget(x.Claims.Tool)
	newest := r.Registry.Find(kind, name)
	if newest == nil || q.Program != nil && target(q.Program.Kind, q.Program.Name) != x.Claims.Tool {
		return nil, nil, codec.Reject(codec.ReasonTool, "the token is for %q, which is not what was called or not served here", x.Claims.Tool)
	}
	if q.Named != "" && q.Named != name {
		return nil, nil, codec.Reject(codec.ReasonTool, "the token is for %q, but the request's header says %q", x.Claims.Tool, q.Named)
	}
	o = &opened{
		program: r.Registry.Reader(kind, name, x.Claims.Revision),
		pos: &engine.Position{
			ID: codec.ID(x.Claims.ID), Turn: x.Claims.Turn, Tool: name, Revision: x.Claims.Revision,
			Deadline: x.Claims.Deadline,
		},
		gone: untimely,
	}
	if err := o.pos.Restore(engine.Encoded{Body: x.State, State: x.Apart, Effects: x.Plain, Secrets: x.Secret}); err != nil {
		return nil, nil, codec.Reject(codec.ReasonState, "%w", err)
	}
	if q.Policy.Resent && bound {
		digest, err := digestArguments(o.pos.ID, q.Arguments)
		if err != nil || string(digest) != string(x.Claims.Request) {
			return nil, nil, codec.Reject(codec.ReasonRequest, "the arguments are not those of the first turn")
		}
	}
	if o.program == nil {
		if x.Claims.Revision > newest.Revision {
			return nil, nil, ErrNewer
		}
		o.program = newest
		o.gone = codec.Reject(codec.ReasonRevision, "the token is of revision %d of %q, which is no longer served", x.Claims.Revision, name)
	}
	if o.gone != nil && !o.pos.HasEffects() {
		return nil, nil, o.gone
	}
	q.Trace = traceOf(x.Claims.Trace)
	return o, early, nil
}

// refused is why a token could not be opened.
func refused(err error) error {
	var rejected *codec.Rejected
	if errors.As(err, &rejected) && (rejected.Reason == codec.ReasonFormat || rejected.Reason == codec.ReasonTooLarge) {
		// It is authentic: a replica whose program is newer knows how to read it.
		return fmt.Errorf("%w, or %v", ErrNewer, rejected.Detail)
	}
	return err
}

// timely decides what becomes of a token whose time is wrong: it came too late to go on,
// too early, or, as the error says, so late that nothing is undone any more.
func (r *Runner) timely(q *Request, now time.Time, x *codec.Contents, untimely *codec.Rejected) (late, early *codec.Rejected, err error) {
	switch {
	case untimely == nil:
		return nil, nil, nil
	case untimely.Reason == codec.ReasonNotYetValid && q.Policy.UndoBroken:
		return nil, nil, nil // the token never left this process: nothing depends on its clock
	case untimely.Reason == codec.ReasonNotYetValid:
		return nil, untimely, nil
	case q.Policy.UndoBroken:
		return untimely, nil, nil
	}
	last := x.Claims.ExpiresAt.Add(r.Codec.Options().Skew + max(r.UndoGrace, 0))
	if r.UndoGrace < 0 || !now.Before(last) {
		return nil, nil, codec.Reject(untimely.Reason, "%w, which is too long ago even to undo what the saga did", untimely.Detail)
	}
	return untimely, nil, nil
}

// parseTarget is the reverse of target.
func parseTarget(s string) (engine.Kind, string) {
	for _, kind := range []engine.Kind{engine.KindPrompt, engine.KindResource} {
		if name, ok := strings.CutPrefix(s, kind.String()+":"); ok {
			return kind, name
		}
	}
	return engine.KindTool, s
}

// misfit returns why a turn that failed cannot be taken by this version of the tool, which
// has no longer what the saga waits in. It is nil if that is not why, and if there is
// nothing to undo any more.
func (o *opened) misfit(err error) *codec.Rejected {
	if err == nil {
		return nil
	}
	var position *engine.PositionError
	var undone *engine.UndoneError // by the engine, if nobody could take the turn again
	if errors.As(err, &position) && !errors.As(err, &undone) && o.pos.HasEffects() && o.pos.Next() != "" {
		return codec.Reject(codec.ReasonState, "%w", position)
	}
	return nil
}

// abandon undoes the effects of a saga that cannot go on.
func (r *Runner) abandon(ctx context.Context, q *Request, o *opened) (End, error) {
	why := "The saga came back too late and has ended."
	switch o.gone.Reason {
	case codec.ReasonRevision:
		why = "The saga cannot go on: this version of the tool is no longer served. Start again."
	case codec.ReasonState:
		why = "The saga cannot go on: the tool has changed since it began. Start again."
	}
	r.logAbandoned(ctx, o)
	turn := r.begin(ctx)
	defer turn.Cancel()
	out, err := o.program.Abandon(turn, o.pos, why)
	end, err := r.finishUndone(turn, q, o.identity(), out, err)
	if err == nil {
		end.Gone = o.gone.Reason
	}
	return end, err
}

// finishUndone is finish for what has undone a saga: no turn comes after it.
func (r *Runner) finishUndone(ctx context.Context, q *Request, of identity, out *engine.Outcome, err error) (End, error) {
	var end End
	if err == nil {
		end, err = r.end(ctx, q, of, out)
	}
	if err != nil {
		return End{}, r.failed(of, err)
	}
	return end, nil
}
