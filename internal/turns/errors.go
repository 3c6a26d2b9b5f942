package turns

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/hook"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// Error is every error of a [Runner]: a turn that has no outcome, logged already. What is
// to be said of it is found with [errors.As] and [errors.Is], in this order:
//
//   - *[RefusedError]: the hook refused the turn.
//   - [ErrHookLate]: the hook took too long; the same request may be made again.
//   - [ErrNewer], [ErrOtherLedger], [ErrEarly], [ErrLedger], [ErrUnderWay], [engine.ErrHanging]: the same request may
//     succeed elsewhere, or later.
//   - [ErrLedgerFull]: the caller has too many sagas under way; later it may succeed.
//   - [ErrKeyReused]: the idempotency key is that of another call.
//   - [ErrTask]: the request has begun a task, or a saga that is one by now.
//   - [ErrNotKept], [ErrKeyUnreadable]: the request was made before, and what it was answered is not known any more.
//   - *[tokens.Rejected]: the token is refused. Why is not the client's to know.
//   - *[engine.AnswerError]: an answer is not acceptable; the token is still good.
//   - *[RequestTooLargeError]: the same request with less in it works.
//   - *[engine.UnsettledError]: the same request is to be sent again, unless the error is one of a request that
//     can be made Once.
//   - *[engine.UnsupportedError]: the client cannot do what the tool needs.
//   - *[engine.ArgumentsError], *[engine.ToolError], [engine.ErrNotFound]: how prompts and
//     resources fail.
//   - [ErrGone]: the client is not there any more, so no one reads what is said.
//   - [ErrLate]: the client has not answered; the same request asks again.
//   - [context.DeadlineExceeded], [context.Canceled]: the turn was stopped from outside.
//   - Anything else is for the operator alone.
type Error struct {
	// Err is what went wrong.
	Err error
	// Once: the same request would begin another saga, so it must not be asked for if this one may have done
	// something that is final.
	Once bool

	// For the log; empty if the token was not opened.
	program string
	kind    engine.Kind
	saga    tokens.ID
	// recorded: the turn was taken before, and this is what it was answered then.
	recorded bool
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrNewer is the reason why a token is to be taken elsewhere, or later: during a
// deployment, replicas of the old and the new version stand side by side.
var ErrNewer = errors.New("the token is of a newer revision of the tool than this server has")

var (
	// ErrLedger: the ledger cannot be used at present. The same request may succeed later.
	ErrLedger = errors.New("the ledger cannot be used at present")
	// ErrUnderWay: the turn was asked for before, and did not end in the time that this request
	// may wait. The same request may succeed later.
	ErrUnderWay = errors.New("the turn is still under way")
	// ErrLedgerFull: the principal has as many records in the ledger as it may have.
	ErrLedgerFull = errors.New("the caller has too many sagas that the server must remember")
	// ErrKeyReused: a first call came with the idempotency key of another one.
	ErrKeyReused = errors.New("the idempotency key was used before, for a call of another tool, with other arguments, by another protocol, or as a task: repeat a call as it was made first, and use a new key for each other one")
)

// ErrKeyUnreadable: what a first call with the same idempotency key has begun was sealed with a key that is not enabled.
var ErrKeyUnreadable = errors.New("what was begun with this idempotency key cannot be read here any more: find out what it has done, and use a new key to call again")

// ErrNotKept: the turn was taken before, and its response was too large to be kept.
var ErrNotKept = errors.New("the same request was answered before, and its response was too large to be kept: nothing is done again")

// ErrTask: the saga of the request has become a task, which a client is given that takes tasks.
var ErrTask = errors.New("the saga goes on as a task")

// ErrOtherLedger is the reason why a token is to be taken elsewhere: what its saga has done is
// looked after by a ledger that this server does not have.
var ErrOtherLedger = errors.New("what the saga has done is in another ledger: servers with one keyset and audience must share one")

// ErrEarly is the reason why a token is to be taken later, or elsewhere: the clock of
// this server is behind the one that it was sealed by, or was set back since.
var ErrEarly = errors.New("the token is of the future: look at the clocks of the replicas")

// ErrHandedOver is what errors wrap of a turn that this process leaves to another one: it stops, or
// another one has the saga by now.
var ErrHandedOver = errors.New("the turn is left to another process")

// ErrGone is what errors of a [Client] wrap that tell of the client itself: it went away,
// or wants no answer any more.
var ErrGone = errors.New("the client is gone")

// RequestTooLargeError says that a saga cannot be suspended as the client has sent too
// much. With less of it the same request works.
type RequestTooLargeError struct{ *tokens.TooLargeError }

// Unwrap returns the cause.
func (e *RequestTooLargeError) Unwrap() error { return e.TooLargeError }

// Failed says of which saga an error is. That the tool cannot go on from a position is
// the token's fault, as far as the client is concerned.
func (r *Runner) Failed(of Identity, err error) error {
	var undone *engine.UndoneError
	if errors.As(err, &undone) && undone.Report != nil && len(undone.Report.Outstanding) > 0 {
		r.Log.Error("effects of a saga that failed were not undone", "tool", of.Program.Name, "saga", of.Saga.String(), "error", err)
	}
	if errors.As(err, new(*engine.PositionError)) {
		err = tokens.Reject(tokens.ReasonState, "%w", err) // whether the saga was undone is still to be seen
	}
	return &Error{program: of.Program.Name, kind: of.Program.Kind, saga: of.Saga, Err: err}
}

// Report logs what an operator should know of an error, and makes sure that it is an
// *[Error].
func (r *Runner) Report(ctx context.Context, method string, err error) error {
	var known *Error
	if !errors.As(err, &known) {
		known = &Error{Err: err}
		err = known
	}
	attrs := make([]slog.Attr, 0, 5)
	attrs = append(attrs, slog.String("method", method))
	if known.program != "" {
		attrs = append(attrs, slog.String("tool", known.program))
	}
	if known.saga != (tokens.ID{}) {
		attrs = append(attrs, slog.String("saga", known.saga.String()))
	}
	c := classify(err)
	if c.reason == "ledger" && c.outcome == OutcomeBroken {
		c.level = r.outage.Level(c.level)
	}
	if c.text != "" {
		r.Log.LogAttrs(ctx, c.level, c.text, append(attrs, c.attrs...)...)
	}
	return err
}

// Outage says how an outage of the ledger is logged: each request that waits meets the same, again and again.
type Outage struct{ logged atomic.Int64 } // when it was last, in nanoseconds

// Level is the level once in ten seconds, and that of what is for debugging in between.
func (o *Outage) Level(level slog.Level) slog.Level {
	now, last := time.Now().UnixNano(), o.logged.Load()
	if now-last < int64(10*time.Second) || !o.logged.CompareAndSwap(last, now) {
		return slog.LevelDebug
	}
	return level
}

// once notes that an error is that of a request which is not known again: it begins another saga.
func once(err error) error {
	var known *Error
	if errors.As(err, &known) {
		known.Once = true
	}
	return err
}

// class is what hooks and the log learn of an error; without a text the log says nothing.
type class struct {
	outcome, reason string
	level           slog.Level
	text            string
	attrs           []slog.Attr
}

func classify(err error) class {
	if turn := (*Error)(nil); errors.As(err, &turn) && turn.recorded {
		again := *turn
		again.recorded = false
		return class{outcome: classify(&again).outcome, reason: reasonRecorded} // it was logged then
	}
	var rejected *tokens.Rejected
	var large *RequestTooLargeError
	var answer *engine.AnswerError
	var unsettled *engine.UnsettledError
	var unsupported *engine.UnsupportedError
	var arguments *engine.ArgumentsError
	var panicked *engine.PanicError
	var hookPanicked *hook.PanicError
	var refused *RefusedError
	attrs := []slog.Attr{slog.Any("error", err)}
	failed := failureOf(err)
	// An error may wrap others of these: the first counts.
	switch {
	case errors.As(err, &hookPanicked):
		return class{OutcomeBroken, "panic", slog.LevelError, "a hook panicked", append(attrs, slog.String("stack", string(hookPanicked.Stack)))}
	case errors.Is(err, ErrHookLate):
		return class{outcome: OutcomeRefused, reason: "hook"} // it was logged when it came
	case errors.As(err, &refused):
		return class{OutcomeRefused, "", slog.LevelInfo, "turn refused", attrs}
	case errors.Is(err, ErrLedger):
		return class{OutcomeBroken, "ledger", slog.LevelError, "the ledger cannot be used", attrs}
	case errors.Is(err, ErrHandedOver):
		return class{OutcomeBroken, "handed_over", slog.LevelInfo, "turn left to another process", attrs}
	case errors.Is(err, ErrUnderWay):
		return class{OutcomeBroken, "under_way", slog.LevelInfo, "turn still under way elsewhere", nil}
	case errors.Is(err, engine.ErrHanging):
		return class{OutcomeBroken, "hanging", slog.LevelError, "turn not taken", attrs}
	case errors.Is(err, ErrLedgerFull):
		return class{OutcomeRefused, "ledger", slog.LevelWarn, "too many records of a caller", attrs}
	case errors.Is(err, ErrNotKept), errors.Is(err, ErrKeyUnreadable):
		return class{OutcomeRefused, reasonRecorded, slog.LevelInfo, "request not repeated", attrs}
	case errors.Is(err, ErrTask): // its client learns that it is to follow the task
		return class{outcome: OutcomeRefused, reason: "task"}
	case errors.Is(err, ErrNewer):
		return class{OutcomeRefused, "newer", slog.LevelInfo, "token of a newer revision", attrs}
	case errors.Is(err, ErrOtherLedger):
		return class{OutcomeRefused, "other_ledger", slog.LevelError, "token of another ledger", attrs}
	case errors.Is(err, ErrEarly):
		return class{OutcomeRefused, string(tokens.ReasonNotYetValid), slog.LevelWarn, "token of the future", attrs}
	case errors.As(err, &rejected):
		return class{OutcomeRefused, string(rejected.Reason), levelOf(rejected.Reason), "token refused", []slog.Attr{slog.Any("token", rejected)}}
	case errors.As(err, &unsettled) && !errors.Is(err, context.Canceled): // else the next attempt finds it out
		if tool := (*engine.ToolError)(nil); errors.As(err, &tool) { // what the tool says hides it
			attrs = append(attrs, slog.Any("cause", tool.Err))
		}
		return class{OutcomeBroken, "unsettled", slog.LevelError, "effect of unknown outcome", attrs}
	// Of these, down to ErrNotFound, the caller reads all there is to know: nothing is logged.
	case errors.As(err, &answer):
		return class{outcome: OutcomeRefused, reason: "answer"}
	case errors.As(err, &unsupported), errors.As(err, new(*RouteError)):
		return class{outcome: OutcomeRefused, reason: "unsupported"}
	case errors.As(err, &arguments), errors.Is(err, ErrKeyReused):
		return class{outcome: OutcomeRefused, reason: "arguments"}
	case errors.Is(err, engine.ErrNotFound):
		return class{outcome: OutcomeFailed, reason: "not_found"}
	case errors.As(err, &large):
		return class{OutcomeRefused, "size", slog.LevelInfo, "request too large", attrs}
	case failed != nil && failed.Disclosed:
		// What lies with the caller and the user, that they decline above all, is no fault.
		return class{OutcomeFailed, "", slog.LevelInfo, "request stopped", append(attrs, slog.Any("cause", failed.Err))}
	case failed != nil:
		return class{OutcomeFailed, "", slog.LevelWarn, "request failed", append(attrs, slog.Any("cause", failed.Err))}
	case errors.As(err, &panicked):
		return class{OutcomeBroken, "panic", slog.LevelError, "turn failed", append(attrs, slog.String("stack", string(panicked.Stack)))}
	case errors.Is(err, context.DeadlineExceeded):
		// A caller can choose what takes long.
		return class{OutcomeBroken, "timeout", slog.LevelWarn, "turn timed out", attrs}
	case errors.Is(err, context.Canceled), errors.Is(err, ErrGone), errors.Is(err, ErrLate):
		return class{OutcomeBroken, "client_gone", slog.LevelInfo, "turn cancelled", attrs}
	}
	return class{OutcomeBroken, "internal", slog.LevelError, "turn failed", attrs}
}

// failureOf is how a prompt or a resource failed, if it did. Tools have results for that:
// theirs are in errors only if the turn broke off, and then that is why.
func failureOf(err error) *engine.ToolError {
	var turn *Error
	var failed *engine.ToolError
	if errors.As(err, &turn) && turn.kind != engine.KindTool && errors.As(err, &failed) {
		return failed
	}
	return nil
}

// levelOf is how loud the refusal of a token is. What anybody can send who pleases, or too late, is no alarm. The rest may
// be: replicas that differ in their keys or code, or a caller with another's token.
func levelOf(why tokens.Reason) slog.Level {
	switch why {
	case tokens.ReasonMalformed, tokens.ReasonTooLong, tokens.ReasonExpired, tokens.ReasonDeadline, tokens.ReasonRequest:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// Protect runs code of the author of p that belongs to no saga, such as what suggests
// values for arguments. It has the time of a turn; if it fails, that is logged.
func Protect[T any](ctx context.Context, r *Runner, method string, p *engine.Program, f func(context.Context) (T, error)) (T, error) {
	turn := r.Begin(ctx)
	defer turn.Cancel()
	v, err := engine.Within(turn, p, method, func() (T, error) { return f(turn) })
	if err != nil {
		err = r.Report(ctx, method, &Error{program: p.Name, Err: err})
	}
	return v, err
}

// logHang says that code of a tool's hangs, and when it has returned after all.
func (r *Runner) logHang(h engine.Hang) {
	log := r.Log.With("tool", h.Tool, "code", h.Doing, "hanging", h.Hanging)
	if h.Returned {
		log.Warn("code of a tool that was given up has returned, which counts for nothing", "took", h.Took)
		return
	}
	log.Error("code of a tool ignores its context, and was given up")
}
