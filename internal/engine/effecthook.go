package engine

import "context"

// EffectCall is a try of an effect's Do or Undo.
type EffectCall struct {
	// Name is the effect's, Key its idempotency key.
	Name, Key string
	// Undo: it is Undo that is called.
	Undo bool
	// Attempt counts the tries in this turn, from 1.
	Attempt int
}

// EffectHook is called around every try of an effect. An error of its own, without having
// called next, is as one of Do or Undo.
type EffectHook func(ctx context.Context, c EffectCall, next func(context.Context) error) error

type effectHookKey struct{}

// WithEffectHook returns a context in which turns have h called around effects.
func WithEffectHook(ctx context.Context, h EffectHook) context.Context {
	return context.WithValue(ctx, effectHookKey{}, h)
}

// EffectHookOf returns the hook of a turn's context, or nil.
func EffectHookOf(ctx context.Context) EffectHook {
	h, _ := ctx.Value(effectHookKey{}).(EffectHook)
	return h
}
