package server

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
)

// Observer watches what a server does, for tracing and metrics: what [Hooks] are called around, it sees begin and
// end. It can refuse nothing, and so costs much less than these. Each of its functions may be nil.
//
// A function is called when something begins, and returns the context that all inside then has, which is ctx or made of it,
// and what is called when that has ended, or nil. It must return soon: nothing bounds its time. It is called before hooks are, and sees
// what they refuse. A panic of it is logged, and changes nothing. Observers are called by many goroutines at once.
type Observer struct {
	// Request, Turn and Effect are as in [Hooks]. The error of a refused request is what its client gets, an [*Error].
	Request func(ctx context.Context, r *RequestInfo) (context.Context, func(error))
	Turn    func(ctx context.Context, t *TurnInfo) (context.Context, func(error))
	Effect  func(ctx context.Context, e *EffectInfo) (context.Context, func(error))
}

// errPanic is what observers learn of a panic, which is on its way.
var errPanic = errors.New("a panic")

// observerOf is a function of an observer that watches a T.
type observerOf[T any] = func(ctx context.Context, info *T) (context.Context, func(error))

// observe tells the observers of the list that something begins. What it returns tells them that it has ended, the
// innermost first.
func observe[T any](ctx context.Context, log *slog.Logger, list []Observer, info *T, of func(*Observer) observerOf[T]) (context.Context, func(error)) {
	var ended []func(error)
	for i := range list {
		if one := of(&list[i]); one != nil {
			guarded(ctx, log, func() {
				inner, done := one(ctx, info)
				if inner != nil {
					ctx = inner
				}
				if done != nil {
					ended = append(ended, done)
				}
			})
		}
	}
	return ctx, func(err error) {
		for _, done := range slices.Backward(ended) {
			guarded(ctx, log, func() { done(err) })
		}
	}
}

// guarded calls an observer.
func guarded(ctx context.Context, log *slog.Logger, call func()) {
	defer func() {
		if v := recover(); v != nil {
			log.ErrorContext(ctx, "an observer panicked", "error", v, "stack", string(debug.Stack()))
		}
	}()
	call()
}

// watch is of the type [turns.Watch].
func (h *hooks) watch(ctx context.Context, t *turns.Turn) (context.Context, func(error)) {
	info := h.turnInfo(ctx, t)
	t.Info = info
	ctx, ended := observe(ctx, h.log, h.observers, info, func(o *Observer) observerOf[TurnInfo] { return o.Turn })
	return ctx, func(err error) {
		info.ended(t)
		ended(err)
	}
}

// watchEffect is of the type [engine.EffectHook].
func (h *hooks) watchEffect(ctx context.Context, c engine.EffectCall, try func(context.Context) error) error {
	info := effectInfo(ctx, c)
	ctx, ended := observe(ctx, h.log, h.observers, info, func(o *Observer) observerOf[EffectInfo] { return o.Effect })
	err := errPanic
	defer func() { ended(err) }()
	err = h.effect(ctx, c, try)
	return err
}

func effectInfo(ctx context.Context, c engine.EffectCall) *EffectInfo {
	info := &EffectInfo{Name: c.Name, Key: saga.Key(c.Key), Undo: c.Undo, Attempt: c.Attempt}
	if t := turns.TurnOf(ctx); t != nil {
		info.Turn, _ = t.Info.(*TurnInfo)
	}
	return info
}
