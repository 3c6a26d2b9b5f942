package turns

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Hook is called around every turn: when the token is open, and before code of the tool's
// runs. next takes the turn. A hook that does not call it refuses the turn, with its error;
// nothing has happened then, and the token is still good.
type Hook func(ctx context.Context, t *Turn, next func(context.Context) error) error

// Watch is called when a turn begins, as a [Hook] is, and returns the context for it and what is called when it has
// ended, or nil.
type Watch func(ctx context.Context, t *Turn) (context.Context, func(error))

// Permit says whether the caller of a context may use a program: it returns nil, [ErrHidden], or a *[RefusedError].
type Permit func(ctx context.Context, p *engine.Program) error

// ErrHidden: there is no such program for this caller.
var ErrHidden = errors.New("it is hidden from this caller")

// WantsPermission reports whether an error says that the caller lacks a permission that it could get.
func WantsPermission(err error) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	return ok && refused.Wanting
}

// toCancel is the key of contexts of [ToCancel].
type toCancel struct{}

// ToCancel returns a context for finding what is then only cancelled: callers may cancel what they have begun, so Permit is not asked.
func ToCancel(ctx context.Context) context.Context { return context.WithValue(ctx, toCancel{}, true) }

// Permitted returns what Permit says, if there is one.
func (r *Runner) Permitted(ctx context.Context, p *engine.Program) error {
	if r.Permit == nil || p == nil || ctx.Value(toCancel{}) != nil {
		return nil
	}
	return r.Permit(ctx, p)
}

// Turn is what a hook learns of a turn.
type Turn struct {
	// Action is "call", "resume" or "cancel", or [ActionUndo] for what a worker does.
	Action string
	// Program is what it is a turn of: nil if the token was refused and the request does
	// not say.
	Program *engine.Program
	// Saga is the saga's id, and Number counts its turns from 1; zero if the token was
	// refused.
	Saga   tokens.ID
	Number uint32
	// Trace is the trace context that the first turn came with, or none.
	Trace Trace
	// Caller is whose turn it is. A turn that the server takes by itself is the caller's who began
	// the saga.
	Caller Caller
	// Arguments are those of the call, if the request has them, Answers what came with it and, when next has returned, what
	// others have answered, and Waited how long ago the client was given the token.
	Arguments json.RawMessage
	Answers   []steps.Answer
	Waited    time.Duration
	// Outcome is how the turn ended and Reason why, Asked are the questions that the client has to answer now, and
	// TokenSize is how long the token is that it gets, when next has returned.
	Outcome, Reason string
	Asked           []steps.Step
	TokenSize       int

	// Overrule is not nil if the turn undoes what no client can: a hook cannot refuse it. It hears the error of one that would.
	Overrule func(error)
	// Info is for the hook to know the turn by, in what the turn does: see [TurnOf].
	Info any
}

// insist has what hooks refuse a turn with logged, and no more.
func (t *Turn) insist(ctx context.Context, r *Runner) {
	t.Overrule = func(err error) {
		_ = r.Report(ctx, t.Caller.Method, &Error{program: t.Program.Name, saga: t.Saga, Err: err})
	}
}

type turnKey struct{}

// TurnOf is the turn that a context is of, of which hooks learn; nil if it is of none.
func TurnOf(ctx context.Context) *Turn {
	t, _ := ctx.Value(turnKey{}).(*Turn)
	return t
}

// Caller is who sent the request that a turn belongs to, and what that was.
type Caller struct {
	// Principal is who sent it, in a form in which no two look the same, Method what the client
	// calls it, and Dialect by whose rules it was served.
	Principal, Method, Dialect string
}

// ActionUndo is the undoing of a saga whose client did not come back, without a request.
const ActionUndo = "undo"

// reasonRecorded: the turn was taken before, and its response repeated.
const reasonRecorded = "recorded"

// Outcomes of turns.
const (
	OutcomeSuspended = "suspended" // the client is asked
	OutcomeDone      = "done"      // a result
	OutcomeFailed    = "failed"    // a result that says that the tool failed
	OutcomeUndone    = "undone"    // cancelled, or come too late: what it did is undone
	OutcomeRefused   = "refused"   // no turn: it lies with the request, or with its time
	OutcomeBroken    = "broken"    // the turn broke off
)

// RefusedError is for hooks that refuse a turn: other errors of theirs are taken for faults. The
// client gets Code, Message and Data.
type RefusedError struct {
	Code    int64
	Message string
	Data    json.RawMessage
	// Later: the same turn may be taken later. Wanting: the caller lacks a permission that it could get.
	Later, Wanting bool
	// Err is what it is made of; nil if it comes from a record.
	Err error
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// HookError is the error of a hook, or of Permit, that kept a task's turn from being taken: a *[RefusedError], or a
// fault of its own.
type HookError struct{ Err error }

// Error implements error.
func (e *HookError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *HookError) Unwrap() error { return e.Err }

func (r *Runner) watched() bool { return r.Hook != nil || r.Watch != nil }

// hears adds to the answers of t, unless that is nil, what others than the client have answered.
func (t *Turn) hears(events []steps.Answer) {
	for _, e := range events {
		if t != nil && !slices.ContainsFunc(t.Answers, func(a steps.Answer) bool { return a.StepID == e.StepID && a.By == e.By }) {
			t.Answers = append(slices.Clip(t.Answers), e)
		}
	}
}

func (t *Turn) ended(end End, err error) {
	t.Outcome, t.Reason = outcome(t.Action, end, err)
	t.Asked, t.TokenSize = end.Steps, len(end.Token)
	if err == nil && end.recorded {
		t.Reason = reasonRecorded
	}
}

// around tells those who watch of a turn, and has the hook called around it, unless t is nil.
func (r *Runner) around(ctx context.Context, t *Turn, take func(context.Context) (End, error)) (end End, err error) {
	if !r.watched() || t == nil {
		return take(ctx)
	}
	ctx = context.WithValue(ctx, turnKey{}, t)
	if r.Watch != nil {
		inner, over := r.Watch(ctx, t)
		if ctx = inner; over != nil {
			defer func() { over(err) }()
		}
	}
	if r.Hook == nil {
		end, err = take(ctx)
		t.ended(end, err)
		return end, err
	}
	return r.hooked(ctx, t, take)
}

// hookedOpen is what a hook learns before a later turn; o is nil if the token was refused.
func (r *Runner) hookedOpen(action string, q *Request, o *Opened) *Turn {
	if o == nil {
		return &Turn{Action: action, Program: q.Program, Caller: q.Caller()}
	}
	return &Turn{
		Action: action, Program: o.Program, Saga: tokens.ID(o.Position.ID), Number: o.Position.Turn + 1, Trace: q.Trace, Caller: q.Caller(),
		Answers: q.Answers, Waited: max(r.Now().Sub(o.issued), 0),
	}
}

// outcome says how a turn ended, and why, in words of a fixed set.
func outcome(action string, end End, err error) (how, why string) {
	switch {
	case err != nil:
		c := classify(err)
		return c.outcome, c.reason
	case end.Gone != "":
		return OutcomeUndone, string(end.Gone)
	case end.Token != "" || end.Position != nil:
		return OutcomeSuspended, ""
	case end.Result == nil || !end.Result.IsError:
		if action == "cancel" && UndoReport(end.Result) != nil {
			return OutcomeUndone, "cancelled"
		}
		return OutcomeDone, ""
	}
	return OutcomeFailed, ""
}

// Trace is a W3C trace context of version 00 in the form in which tokens hold it: the
// version, the trace's id, the parent's and the flags. The zero value is none.
type Trace [1 + 16 + 8 + 1]byte

// traceparent is how long the text of version 00 is.
const traceparent = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// ParseTrace reads a traceparent (W3C Trace Context, 3.2). Of versions that are yet to
// come it takes what they have in common with this one, as the standard says. ok is false
// if there is none, or it is not valid: then it must be ignored.
func ParseTrace(s string) (t Trace, ok bool) {
	later := len(s) > traceparent && s[traceparent] == '-' && !strings.HasPrefix(s, "00")
	if len(s) != traceparent && !later || strings.HasPrefix(s, "ff") || strings.ToLower(s[:traceparent]) != s[:traceparent] {
		return Trace{}, false
	}
	parts := strings.Split(s[:traceparent], "-")
	if len(parts) != 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || len(parts[2]) != 16 {
		return Trace{}, false
	}
	b, err := hex.DecodeString(strings.Join(parts, ""))
	if err != nil || [16]byte(b[1:17]) == [16]byte{} || [8]byte(b[17:25]) == [8]byte{} {
		return Trace{}, false
	}
	b[0] = 0
	return Trace(b), true
}

// String returns the traceparent, or "" for none.
func (t Trace) String() string {
	if t == (Trace{}) {
		return ""
	}
	s := hex.EncodeToString(t[:])
	return s[:2] + "-" + s[2:34] + "-" + s[34:50] + "-" + s[50:]
}
