package turns

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// TaskTurn is a turn of a saga that the server drives itself: no token goes out, what it did is
// undone if it breaks off, and its driver remembers where it stands. [Config].Timeout bounds
// its code, and the context what comes after that as well.
type TaskTurn struct {
	// Caller is whose task it is, and by what request it was begun.
	Caller Caller
	// Program and Saga say what it is a turn of, and Position where that stands; nil before
	// the first turn. Arguments are the tool's; nil if the Position has them.
	Program   *engine.Program
	Saga      tokens.ID
	Position  *engine.Position
	Arguments json.RawMessage
	// Client is what the client could do when the task was begun.
	Client steps.Features
	// Answers are to what was asked at Position.
	Answers []steps.Answer
	// Notifier gets what the tool tells.
	Notifier engine.Notifier
	// Trace is that of the call which began the task.
	Trace Trace
	// Now is the time of the turn.
	Now time.Time
	// Acting is as in [engine.Call]: an error of it keeps the turn from performing anything
	// more.
	Acting func(context.Context) error
	// Undoing and Checkpoint are as in [engine.Call].
	Undoing    func(context.Context, engine.Undoing) error
	Checkpoint func(context.Context, *engine.Position) error
	// Broken is Undoing for a position that the program cannot go on from any more.
	Broken func(context.Context, engine.Undoing) error
	// Hooked: the hook was called around the request that this is a part of.
	Hooked bool
	// Lost: another process has begun this turn before, with these Answers, and died or could not
	// end it. It may have done more than Position knows of.
	Lost bool
}

func (t *TaskTurn) identity() identity { return identity{t.Program, t.Saga} }

// number counts the turns from 1.
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
	if err == nil && o.gone != nil {
		err = o.gone
	}
	if err != nil {
		return TaskTurn{}, r.Report(ctx, q.Method, err)
	}
	t := TaskTurn{Caller: q.Caller(), Program: o.program, Saga: o.id, Position: o.pos, Client: q.Client, Answers: q.Answers, Trace: q.Trace}
	if q.Policy.Resent { // else the position has them
		t.Arguments = orEmpty(q.Arguments)
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
		if t.Position == nil {
			out, err := t.Program.Start(ctx, engine.Call{
				ID: t.Saga, Now: t.Now, Client: r.Features(t.Client), Arguments: t.Arguments, Notifier: t.Notifier, Held: true, Lost: t.Lost, Acting: t.Acting, Undoing: t.Undoing, Checkpoint: t.Checkpoint, Limit: r.Timeout,
			})
			return out, "", err
		}
		out, err := t.Program.Resume(ctx, t.Position, engine.Resumption{
			Now: t.Now, Client: r.Features(t.Client), Answers: t.Answers, Arguments: t.Arguments, Notifier: t.Notifier, Held: true, Lost: t.Lost, Acting: t.Acting, Undoing: t.Undoing, Checkpoint: t.Checkpoint, Limit: r.Timeout,
		})
		var position *engine.PositionError
		if errors.As(err, &position) && !errors.As(err, new(*engine.UndoneError)) {
			out, err := t.Program.AbandonAs(ctx, t.Position, engine.Resumption{Why: GoneText(tokens.ReasonState), Acting: t.Acting, Undoing: t.Broken})
			if err == nil {
				out.Err = errors.Join(position, out.Err)
			}
			return out, tokens.ReasonState, err
		}
		return out, "", err
	})
}

// UndoTask ends a task and undoes what it did, up to its position. Lost says that another process has
// begun the turn after that, with t.Answers, and may have done more: it is run to find that, unless
// only its own revision can, which Program is not. Its end is that turn's if that ends well after
// all. why is said to the client if it is not that it has cancelled the task.
func (r *Runner) UndoTask(ctx context.Context, t TaskTurn, lost, served bool, why string) (End, error) {
	action := "cancel"
	if why != "" {
		action = ActionUndo
	}
	return r.taskTurn(ctx, &t, action, func(ctx context.Context) (out *engine.Outcome, gone tokens.Reason, err error) {
		switch {
		case t.Position == nil && lost && served:
			out, err = t.Program.CancelFirst(ctx, engine.Call{ID: t.Saga, Now: t.Now, Client: r.Features(t.Client), Arguments: t.Arguments, Undoing: t.Undoing, Checkpoint: t.Checkpoint, Limit: r.Timeout})
		case t.Position == nil:
			out = undoneNothing(why)
		case !served:
			out, err = t.Program.AbandonAs(ctx, t.Position, engine.Resumption{Why: GoneText(tokens.ReasonRevision), Acting: t.Acting, Undoing: t.Undoing})
			gone = tokens.ReasonRevision
		default:
			res := engine.Resumption{Now: t.Now, Latest: true, Why: why, Acting: t.Acting, Undoing: t.Undoing, Checkpoint: t.Checkpoint, Limit: r.Timeout}
			if lost {
				res.Client, res.Answers, res.Arguments, res.Notifier = r.Features(t.Client), t.Answers, t.Arguments, t.Notifier
				res.Held, res.Lost = true, true
			}
			out, err = t.Program.Cancel(ctx, t.Position, res)
			carryEnd(out, t.Position)
		}
		return out, gone, err
	})
}

// undoneNothing is how a task ends that had not begun.
func undoneNothing(why string) *engine.Outcome {
	if why == "" {
		why = "Cancelled."
	}
	out := &engine.Outcome{Result: content.Resultf("%s", why)}
	out.Result.Meta = map[string]any{engine.UndoMetaKey: &engine.UndoReport{Undone: []string{}, Outstanding: []string{}}}
	return out
}

// taskTurn takes a turn, with what all turns have around them.
func (r *Runner) taskTurn(ctx context.Context, t *TaskTurn, action string, take func(context.Context) (*engine.Outcome, tokens.Reason, error)) (End, error) {
	if r.EffectHook != nil {
		ctx = engine.WithEffectHook(ctx, r.EffectHook)
	}
	hooked := func(ctx context.Context) (end End, err error) {
		var out *engine.Outcome
		err = engine.Protect(func() (err error) { // or one task would bring all servers down
			out, end.Gone, err = take(ctx)
			return err
		})
		if err != nil {
			return End{}, r.failed(t.identity(), err)
		}
		if out.Err != nil {
			r.logFailed(ctx, t.identity(), out)
		}
		end.Outcome = *out
		return end, nil
	}
	var end End
	var err error
	if r.Hook == nil || t.Hooked {
		end, err = hooked(ctx)
	} else {
		at := &Turn{Action: action, Program: t.Program, Saga: t.Saga, Number: t.number(), Trace: t.Trace, Caller: t.Caller}
		at.must = action == "cancel" || action == ActionUndo
		taken := false
		end, err = r.around(ctx, at, func(ctx context.Context) (End, error) {
			taken = true
			return hooked(ctx)
		})
		if !taken {
			err = r.failed(t.identity(), &HookError{err})
		}
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

// EncodeEnd encodes how a task has ended, and DecodeEnd decodes it.
func EncodeEnd(end *End) ([]byte, error) { return encodeResponse(end, nil) }

// DecodeEnd is the reverse of [EncodeEnd].
func DecodeEnd(raw []byte) (*End, error) {
	end, _, err := decodeResponse(raw)
	if err != nil {
		return nil, err
	}
	return &end, nil
}

// EncodeFailure encodes an error for which [EndsWith] holds, and DecodeFailure decodes it.
func EncodeFailure(err error) []byte {
	raw, _ := encodeResponse(new(End), err) // which has nothing that cannot be encoded
	return raw
}

// DecodeFailure is the reverse of [EncodeFailure].
func DecodeFailure(raw []byte) error {
	_, failure, err := decodeResponse(raw)
	return cmp.Or(err, failure, errUnknownFailure)
}

// errUnknownFailure is what a record says that says nothing.
var errUnknownFailure = errors.New("the reason of a failure is not in its record")

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
