package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/hook"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Hooks are called around what a server does: for tracing, metrics and
// authorization. Each of them may be nil. It gets what it is about, and next, which does
// it: a hook calls next once, before it returns, and passes it the context or one made of
// it, which all that is inside then has.
//
// A hook that returns an error without having called next refuses: nothing has been done,
// and nothing is lost. If the error is an [*Error], the client gets it as it is; see
// [TryAgain]. Any other is a fault inside, which the log has. What next has done cannot be
// refused any more: then its error counts, not the hook's.
//
// Hooks are called by many goroutines at once.
type Hooks struct {
	// Request is called around every request that is not refused as malformed, before it
	// is looked into. With a ledger, a call of MCP before 2026-07-28 that waits for its client
	// for longer than a second ends here, without an error, while its stream continues.
	Request func(ctx context.Context, r *RequestInfo, next func(context.Context) error) error
	// Turn is called around every turn of a saga: of a first turn before anything is run,
	// of a later one when its token is open. Clients of MCP before 2026-07-28 have
	// all turns taken in one request.
	//
	// With a ledger the server takes turns by itself: those of tasks, and of calls of these
	// clients those after an answer. If one of them is refused the saga fails, with the hook's
	// error, and what it did is undone; with [TryAgain] the turn is tried again after a second,
	// and then with growing pauses. What the server undoes by itself, or as a task was cancelled,
	// is undone whatever the hook says, and hooks that it would have kept from that are called all the same.
	//
	// A hook has the time of its turn, Options.TurnTimeout, and the turn has what it leaves; while next runs, its clock
	// stands still. Then its context ends, which the log says. A hook that had not called next by then has refused
	// nothing, whatever it returns: it counts as TryAgain.
	Turn func(ctx context.Context, t *TurnInfo, next func(context.Context) error) error
	// Effect is called around every try of an effect, and of undoing one. Here an error
	// counts as one of the effect's own; see [saga.Refused].
	Effect func(ctx context.Context, e *EffectInfo, next func(context.Context) error) error
}

// RequestInfo is what [Hooks] and an [Observer] learn of a request. It is for reading, but for Trace.
type RequestInfo struct {
	// Method is MCP's, such as "tools/call".
	Method string
	// Dialect names the family of protocol revisions by whose rules it is served.
	Dialect string
	// Caller is who sent it.
	Caller saga.Caller
	// Remote is the address that it came from, or empty: perhaps a proxy's.
	Remote string
	// Header is that of the HTTP request, or nil.
	Header http.Header
	// Trace is the traceparent that it came with (W3C Trace Context), from its _meta or
	// else its header; empty if there is none that is valid. An observer, or a hook before it calls
	// next, that sets it then says what a saga that begins with the request has as [TurnInfo].Trace in all its turns.
	Trace string
	// Bound is, once a request has ended that was refused for it, which bound of the server's it has met: "rate", "tool_rate"
	// or "busy" (see [Options].CallerRate, ToolRates and MaxTurns), "ledger" or "tasks" (LedgerLimit), or what the client has
	// too many of, such as "subscriptions".
	Bound string

	message *wire.Message
}

// ID is the JSON text of the request's id, which the client has chosen; empty if it has none.
func (r *RequestInfo) ID() string {
	if r.message == nil {
		return ""
	}
	return string(r.message.ID)
}

// TraceState is the tracestate beside Trace, as it came, unchecked. It is empty if the
// traceparent is not the request's own.
func (r *RequestInfo) TraceState() (state string) {
	if r.message == nil {
		return ""
	}
	if _, inMeta := traceOf(r.message.Params, r.Header); inMeta {
		state, _ = jsonview.String(jsonview.Get(r.message.Params, "_meta", "tracestate"))
	} else if len(r.Header["Tracestate"]) == 1 {
		state = r.Header["Tracestate"][0]
	}
	return state
}

// TurnInfo is what [Hooks] learn of a turn. It is for reading.
type TurnInfo struct {
	// Request is the request whose turn it is. For turns that the server takes by itself it is the
	// one that began the saga, without Remote and Header, which are not kept; if the server undoes a
	// saga that is no task it has the Caller alone.
	Request *RequestInfo
	// Action is "call" (the first turn), "resume" or "cancel", or "undo" for what the server
	// undoes itself.
	Action string
	// Kind is "tool", "prompt" or "resource", and Name its name. Both are empty if a token
	// was refused that alone could have said it.
	Kind, Name string
	// Saga is the same in all turns, and Turn counts them from 1; both are zero if the
	// token was refused.
	Saga saga.ID
	Turn int
	// Trace is the traceparent that the first turn came with, or empty.
	Trace string
	// Arguments are the arguments of a first turn, and Answers what came with a turn, perhaps to what was not asked, and, once
	// next has returned, what others than the client have answered: secrets may be in both. Waited is how long ago the client was given the token; zero for turns that the server takes by
	// itself.
	Arguments json.RawMessage
	Answers   []steps.Answer
	Waited    time.Duration

	// Asked are the ids of the questions that are open, and TokenSize is how many bytes the token has that holds the saga
	// now, once next has returned; zero if there is none.
	Asked     []string
	TokenSize int
	// Outcome is how the turn ended, once next has returned: "suspended", "done", "failed"
	// (a result that says so), "undone" (cancelled, or what came too late), "refused" (it
	// lies with the request, or its time) or "broken" (it lies with the server, the tool or
	// the connection).
	Outcome string
	// Reason says why, in one of few words: the reason that the log gives for refusing the
	// token, such as "expired" (docs/operate.md has them), or
	// "answer", "arguments", "cancelled", "client_gone", "handed_over" (another process continues), "hook", "internal", "ledger", "newer",
	// "not_found", "panic", "recorded" (the turn was taken before), "size", "timeout",
	// "under_way" (the same request came before, and is still worked on), "unsettled", "unsupported", or nothing.
	Reason string
}

// EffectInfo is what [Hooks] learn of a try of an effect. It is for reading.
type EffectInfo struct {
	// Turn is the turn that it is part of.
	Turn *TurnInfo
	// Name is the effect's name, and Key its idempotency key.
	Name string
	Key  saga.Key
	// Undo: the effect is undone.
	Undo bool
	// Attempt counts the tries of a turn, from 1.
	Attempt int
}

// TryAgain is an error that says that the same request may succeed a little later. Over
// HTTP it has the status 503, and says after how many seconds.
func TryAgain(text string, after time.Duration) *Error {
	e := wire.TryAgain(text)
	return &Error{Code: e.Code, Message: e.Message, Data: e.Data, retryAfter: max(after, time.Second)}
}

// hooks calls the observers and hooks of a server, the first outermost. It is nil if there are none.
type hooks struct {
	admit     func(context.Context, *dialect.Exchange) *wire.Error
	observers []Observer
	list      []Hooks
	log       *slog.Logger
}

// newHooks has requests, turns and effects call the observers and hooks of the options.
func newHooks(o *Options, c *turns.Config) *hooks {
	h := &hooks{
		observers: slices.DeleteFunc(slices.Clone(o.Observers), func(o Observer) bool { return o.Request == nil && o.Turn == nil && o.Effect == nil }),
		list:      slices.DeleteFunc(slices.Clone(o.Hooks), func(h Hooks) bool { return h.Request == nil && h.Turn == nil && h.Effect == nil }),
		log:       o.Logger,
	}
	if len(h.list) > 0 {
		c.Hook, c.EffectHook = h.turn, h.effect
	}
	if len(h.observers) > 0 {
		c.Watch, c.EffectHook = h.watch, h.watchEffect
	}
	if c.EffectHook == nil {
		return nil
	}
	return h
}

type requestInfoKey struct{}

// exchange is of the type of [dialect.Host]'s Around.
func (h *hooks) exchange(ctx context.Context, x *dialect.Exchange, next dialect.Handler) (result json.RawMessage, rerr *wire.Error) {
	x.Trace, _ = traceOf(x.Message.Params, x.Header)
	info := &RequestInfo{Method: x.Message.Method, Caller: saga.CallerOf(ctx), Remote: x.Remote, Header: x.Header, Trace: x.Trace.String(), message: x.Message}
	if x.Dialect != nil {
		info.Dialect = x.Dialect.Name()
	}
	ctx = context.WithValue(ctx, requestInfoKey{}, info)
	ctx, ended := observe(ctx, h.log, h.observers, info, func(o *Observer) observerOf[RequestInfo] { return o.Request })
	err := errPanic
	defer func() { ended(err) }()
	if rerr = h.admit(ctx, x); rerr == nil {
		result, rerr = h.around(ctx, x, info, next)
	}
	if err = nil; rerr != nil {
		err, info.Bound = publicError(rerr), rerr.Bound
	}
	return result, rerr
}

// around has a request served with the hooks around that.
func (h *hooks) around(ctx context.Context, x *dialect.Exchange, info *RequestInfo, next dialect.Handler) (result json.RawMessage, rerr *wire.Error) {
	served := false
	err := around(ctx, h, info, func(one *Hooks) hookOf[RequestInfo] { return one.Request }, nil, func(ctx context.Context) error {
		if x.Trace == (turns.Trace{}) && info.Trace != "" { // the sagas that begin with the request have it from now on
			x.Trace, _ = turns.ParseTrace(info.Trace)
		}
		result, rerr = next(ctx, x)
		served = true
		if rerr != nil {
			return publicError(rerr)
		}
		return nil
	})
	if served {
		return result, rerr
	}
	if rerr = refusalOf(err); rerr != nil {
		return nil, rerr
	}
	if panicked, ok := errors.AsType[*hook.PanicError](err); ok {
		h.log.ErrorContext(ctx, "a hook panicked", "method", info.Method, "error", err, "stack", string(panicked.Stack))
	} else {
		h.log.ErrorContext(ctx, "a hook failed", "method", info.Method, "error", err)
	}
	return nil, dialect.Fault()
}

// turnInfo is what hooks and observers learn of a turn that begins.
func (h *hooks) turnInfo(ctx context.Context, t *turns.Turn) *TurnInfo {
	info := &TurnInfo{
		Action: t.Action, Saga: saga.ID(t.Saga), Turn: int(t.Number), Trace: t.Trace.String(), Arguments: t.Arguments, Answers: t.Answers, Waited: t.Waited,
		Outcome: turns.OutcomeRefused, Reason: "hook", // unless it is taken
	}
	info.Request, _ = ctx.Value(requestInfoKey{}).(*RequestInfo)
	if info.Request == nil { // the server takes it by itself
		c := t.Caller
		info.Request = &RequestInfo{Method: c.Method, Dialect: c.Dialect, Caller: saga.CallerOf(ctx), Trace: info.Trace}
	}
	if t.Program != nil {
		info.Kind, info.Name = t.Program.Kind.String(), t.Program.Name
	}
	return info
}

// ended puts into i how a turn has ended, if it was taken.
func (i *TurnInfo) ended(t *turns.Turn) {
	i.Saga = saga.ID(t.Saga) // a call that is repeated is of the saga that the first one has begun
	if t.Outcome != "" {
		i.Answers, i.Outcome, i.Reason, i.TokenSize = t.Answers, t.Outcome, t.Reason, t.TokenSize
		for _, q := range t.Asked {
			i.Asked = append(i.Asked, q.ID)
		}
	}
}

// turn is of the type [turns.Hook].
func (h *hooks) turn(ctx context.Context, t *turns.Turn, take func(context.Context) error) error {
	info := h.turnInfo(ctx, t)
	t.Info = info
	taken := false
	var overrule func(error)
	if t.Overrule != nil {
		overrule = func(err error) { t.Overrule(refused(err)) }
	}
	err := around(ctx, h, info, func(one *Hooks) hookOf[TurnInfo] { return one.Turn }, overrule, func(ctx context.Context) error {
		taken = true
		err := take(ctx)
		info.ended(t)
		return err
	})
	if !taken {
		err = refused(err)
	}
	return err
}

// refused is the error of a hook as that of a turn.
func refused(err error) error {
	if rerr := refusalOf(err); rerr != nil {
		return refusedTurn(rerr, err)
	}
	return err
}

// effect is of the type [engine.EffectHook].
func (h *hooks) effect(ctx context.Context, c engine.EffectCall, try func(context.Context) error) error {
	return around(ctx, h, effectInfo(ctx, c), func(one *Hooks) hookOf[EffectInfo] { return one.Effect }, nil, try)
}

// hookOf is a hook that receives a T.
type hookOf[T any] = func(ctx context.Context, info *T, next func(context.Context) error) error

// around calls one hook of each of the list, if there is such a one, around work. Panics are
// logged here if they come when the work is done already: otherwise they are what the work
// failed with. With overrule a hook that does not call next is passed over, and overrule hears its error.
func around[T any](ctx context.Context, h *hooks, info *T, of func(*Hooks) hookOf[T], overrule func(error), work func(context.Context) error) error {
	for i := range slices.Backward(h.list) {
		one, inside := of(&h.list[i]), work
		if one == nil {
			continue
		}
		work = func(ctx context.Context) error {
			begun := false
			err := hook.AroundNoting(ctx, func(ctx context.Context, next func(context.Context) error) error {
				return one(ctx, info, next)
			}, func(ctx context.Context) error {
				begun = true
				return inside(ctx)
			}, func(p *hook.PanicError) {
				h.log.ErrorContext(ctx, "a hook panicked", "error", p.Value, "stack", string(p.Stack))
			})
			if begun || overrule == nil {
				return err
			}
			overrule(err)
			return inside(ctx)
		}
	}
	return work(ctx)
}

// wireErrorOf is the error that a hook wants the client to get.
func wireErrorOf(e *Error) *wire.Error {
	rerr := &wire.Error{Code: e.Code, Message: e.Message, Data: e.Data, RetryAfter: e.retryAfter}
	if !jsontext.Value(e.Data).IsValid() {
		rerr.Data = nil // or the response could not be read
	}
	switch rerr.Code {
	case 0:
		rerr.Code = wire.CodeInvalidRequest
	case wire.CodeTryAgain:
		rerr.Status = http.StatusServiceUnavailable
	}
	return rerr
}

// publicError is an error that is sent to a client, for those outside.
func publicError(e *wire.Error) *Error { return &Error{Code: e.Code, Message: e.Message, Data: e.Data} }

// traceOf returns the trace context of a request, and whether it is that in its _meta.
func traceOf(params []byte, header http.Header) (t turns.Trace, inMeta bool) {
	text, _ := jsonview.String(jsonview.Get(params, "_meta", "traceparent"))
	t, inMeta = turns.ParseTrace(text)
	if !inMeta && len(header["Traceparent"]) == 1 {
		t, _ = turns.ParseTrace(header["Traceparent"][0])
	}
	return t, inMeta
}
