package turns

import (
	"cmp"
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// TaskTurn is a turn of a saga that the server drives itself: no token goes out, what it did is
// undone if it breaks off, and its driver remembers where it stands. [Config].Timeout bounds
// its code, and the context what comes after that as well.
type TaskTurn struct {
	// Call has the time of the turn and what the driver is called for. Of first turns it has the arguments, of
	// later ones if the Position does not have them. Client is what the client could do when the task was begun.
	engine.Call
	// Identity says what it is a turn of, and Position where that stands; nil before the first turn.
	Identity
	Position *engine.Position
	// Name is what a new task is to be called, if something names it already.
	Name string
	// Caller is whose task it is, and by what request it was begun. Who is the same with what the last request says of
	// that; nil is an anonymous one.
	Caller Caller
	Who    *engine.Caller
	// Trace is that of the call which began the task.
	Trace Trace
	// Broken is Undoing for a position that the program cannot go on from any more.
	Broken func(context.Context, engine.Undoing) error
	// Hooked: the hook was called around the request that this is a part of.
	Hooked bool
	// Permitted: the request that this is the first turn of has just been permitted.
	Permitted bool
}

func (t *TaskTurn) number() uint32 {
	if t.Position == nil {
		return 1
	}
	return t.Position.Turn + 1
}

// OpenTask opens the token that a client has brought, so that the saga continues as a task. It
// fails as [Runner.Resume] does before code of the tool runs.
func (r *Runner) OpenTask(ctx context.Context, q Request) (TaskTurn, error) {
	o, err := r.open(ctx, &q, false)
	if err == nil && o.Gone != nil {
		err = o.Gone
	}
	if err != nil {
		return TaskTurn{}, r.Report(ctx, q.Method, err)
	}
	t := TaskTurn{Call: engine.Call{Client: q.Client, Answers: q.Answers}, Identity: o.Identity, Position: o.Position, Caller: q.Caller(), Trace: q.Trace}
	if q.Policy.Resent { // else the position has them
		t.Arguments = OrEmpty(q.Arguments)
	}
	return t, nil
}

// TakeTask takes a turn. It ends with a Position or a result, and without a Token; Gone is set
// if the program has no longer what the saga waits in, so that it was undone.
func (r *Runner) TakeTask(ctx context.Context, t TaskTurn) (End, error) {
	action := "resume"
	if t.Position == nil {
		action = "call"
	}
	return r.taskTurn(ctx, &t, action, func(ctx context.Context) (*engine.Outcome, tokens.Reason, error) {
		c := r.taskCall(ctx, &t)
		c.Held = true
		if t.Position == nil {
			out, err := t.Program.Start(ctx, c)
			return out, "", err
		}
		out, err := t.Program.Resume(ctx, t.Position, c)
		var position *engine.PositionError
		if errors.As(err, &position) && !errors.As(err, new(*engine.UndoneError)) {
			out, err := t.Program.Abandon(ctx, t.Position, engine.Call{Why: GoneText(tokens.ReasonState), Acting: t.Acting, Undoing: t.Broken})
			if err == nil {
				out.Err = errors.Join(position, out.Err)
			}
			return out, tokens.ReasonState, err
		}
		return out, "", err
	})
}

// UndoTask ends a task and undoes what it did, up to its position. lost says that another process has begun the turn after
// that, with t.Answers, and may have done more: it is run to find that, if Program can take it, as served says. Its end is
// that turn's if that ends well after all. why is said to the client if it is not that it has cancelled the task.
func (r *Runner) UndoTask(ctx context.Context, t TaskTurn, lost, served bool, why string) (End, error) {
	action := "cancel"
	if why != "" {
		action = ActionUndo
	}
	return r.taskTurn(ctx, &t, action, func(ctx context.Context) (out *engine.Outcome, gone tokens.Reason, err error) {
		c := r.taskCall(ctx, &t)
		if t.Begun != nil && !(lost && served) { // no code is run
			t.Position, lost = t.Begun, false
		}
		switch {
		case t.Position == nil && !(lost && served):
			out = engine.Cancelled(nil, cmp.Or(why, "Cancelled.")) // it had not begun
		case !served:
			c.Why, gone = GoneText(tokens.ReasonRevision), tokens.ReasonRevision
			out, err = t.Program.Abandon(ctx, t.Position, c)
		case t.Position == nil:
			out, err = t.Program.Cancel(ctx, nil, c)
		default:
			c.Latest, c.Why = true, why
			if c.Held, c.Lost = lost, lost; !lost {
				c.Answers = nil
			}
			out, err = t.Program.Cancel(ctx, t.Position, c)
			carryEnd(out, t.Position)
		}
		return out, gone, err
	})
}

func (r *Runner) taskCall(ctx context.Context, t *TaskTurn) engine.Call {
	c := t.Call
	c.ID, c.Client, c.Limit = t.Saga, r.Features(t.Client), r.limit(ctx)
	return c
}

// taskTurn takes a turn, with what all turns have around them.
func (r *Runner) taskTurn(ctx context.Context, t *TaskTurn, action string, take func(context.Context) (*engine.Outcome, tokens.Reason, error)) (End, error) {
	ctx = engine.WithCaller(ctx, t.Who)
	if r.EffectHook != nil {
		ctx = engine.WithEffectHook(ctx, r.EffectHook)
	}
	taken := false
	work := func(ctx context.Context) (end End, err error) {
		taken = true
		var out *engine.Outcome
		err = engine.Protect(func() (err error) { // or one task would bring all servers down
			out, end.Gone, err = take(ctx)
			return err
		})
		if err != nil {
			return End{}, r.Failed(t.Identity, err)
		}
		if out.Err != nil {
			r.logFailed(ctx, t.Identity, out)
		}
		end.Outcome = *out
		return end, nil
	}
	var at *Turn
	if !t.Hooked {
		at = &Turn{Action: action, Program: t.Program, Saga: t.Saga, Number: t.number(), Trace: t.Trace, Caller: t.Caller, Answers: t.Answers}
		at.hears(t.Events)
		if t.Position == nil {
			at.Arguments = t.Arguments
		}
		if action == "cancel" || action == ActionUndo {
			at.insist(ctx, r)
		}
	}
	end, err := End{}, error(nil)
	if action == "resume" || action == "call" && !t.Permitted {
		err = r.Permitted(ctx, t.Program)
	}
	if err == nil {
		end, err = r.around(ctx, at, work)
	}
	if !taken { // Permit or a hook has refused it, and nothing was done
		err = r.Failed(t.Identity, &HookError{err})
	}
	if err != nil {
		err = r.Report(ctx, cmp.Or(t.Caller.Method, "task"), err)
	}
	return end, err
}

// Sample has the server's own model answer a question that the client cannot. It fails if that takes
// longer than a turn may, or ctx ends.
func (r *Runner) Sample(ctx context.Context, p *engine.Program, step steps.Step) (steps.Answer, error) {
	if r.Model == nil {
		return steps.Answer{StepID: step.ID, Error: &steps.ClientError{Code: codeInternal, Message: "there is no model"}}, nil
	}
	a, err := r.sample(ctx, p, step)
	if err != nil {
		err = r.Report(ctx, "task", &Error{program: p.Name, kind: p.Kind, Err: err})
	}
	return a, err
}

// ProgramOf finds the program that can drive a revision of a target: served is false if that can only
// undo. It is nil if there is none, or only an older one.
func (r *Runner) ProgramOf(name string, revision uint32) (p *engine.Program, served bool) {
	p, newest := r.Registry.Reader(name, revision)
	if p != nil {
		return p, true
	}
	if newest != nil && newest.Revision < revision {
		return nil, false
	}
	return newest, false
}

// GoOnUndoing ends a task that another process had begun to undo: t.Position is that of the
// [engine.Undoing]. With the response of a turn it ends as that has, and otherwise as one that was
// cancelled, or for the reason why, which the client reads.
func (r *Runner) GoOnUndoing(ctx context.Context, t TaskTurn, response []byte, why string) (End, error) {
	return r.taskTurn(ctx, &t, "cancel", func(ctx context.Context) (*engine.Outcome, tokens.Reason, error) {
		if t.Position == nil {
			return engine.Cancelled(nil, cmp.Or(why, "Cancelled.")), "", nil
		}
		if response == nil {
			out, err := t.Program.Cancel(ctx, t.Position, engine.Call{Now: later(t.Now, t.Position.Wake), Latest: true, Why: why, Acting: t.Acting, Undoing: t.Undoing})
			return out, "", err
		}
		end, _, err := DecodeResponse(response)
		if err != nil {
			return nil, "", err
		}
		u := engine.Undoing{Position: t.Position, Outcome: &end.Outcome}
		if err := t.Undoing(ctx, u); err != nil {
			return nil, "", err
		}
		out, err := t.Program.Undo(ctx, u)
		return out, "", err
	})
}
