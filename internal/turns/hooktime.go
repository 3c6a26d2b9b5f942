package turns

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/hook"
)

// ErrHookLate is the reason why a turn was not taken: the hook was not done with it when the time of the turn was
// over. Nothing has happened, so the same request may be made again.
var ErrHookLate = fmt.Errorf("a hook took longer than a turn may: %w", context.DeadlineExceeded)

// spentKey is of the time that a hook has used of its turn, a [time.Duration].
type spentKey struct{}

// hooked has the hook called around a turn. The hook has the time of a turn until it calls next, and again after that.
// The turn has what is left by then, as a duration: a sleep before it begins does not count.
func (r *Runner) hooked(ctx context.Context, t *Turn, take func(context.Context) (End, error)) (end End, err error) {
	hookCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	most := r.Timeout
	if most <= 0 {
		most = math.MaxInt64
	}
	began, late := time.Now(), time.AfterFunc(most, func() {
		cancel(ErrHookLate)
		name := ""
		if t.Program != nil {
			name = t.Program.Name
		}
		// When the time is over, as a hook may ignore that.
		r.Log.WarnContext(ctx, "a hook takes longer than a turn may, and its context has ended", "tool", name, "saga", t.Saga.String(), "action", t.Action)
	})
	taken := false
	failure := hook.Around(hookCtx, func(ctx context.Context, next func(context.Context) error) error {
		return r.Hook(ctx, t, next)
	}, func(inner context.Context) error {
		switch {
		case late.Stop():
			inner = context.WithValue(inner, spentKey{}, time.Since(began))
		case t.Overrule != nil:
			inner = ctx // it has not ended, and the turn has all its time
		default:
			return ErrHookLate
		}
		defer late.Reset(most)
		taken = true
		end, err = take(inner)
		t.ended(end, err)
		return err
	})
	late.Stop()
	if !taken && errors.Is(context.Cause(hookCtx), ErrHookLate) && !errors.As(failure, new(*hook.PanicError)) { // what it makes of that is no refusal
		failure = ErrHookLate
	}
	switch {
	case taken:
		return end, failure // which is its own error, or that it panicked
	case t.Overrule != nil:
		t.Overrule(failure)
		end, err = take(ctx)
		t.ended(end, err)
		return end, err
	}
	return End{}, failure
}

// limit is how long a turn may take of which its hook has had a part.
func (r *Runner) limit(ctx context.Context) time.Duration {
	if r.Hook == nil || r.Timeout <= 0 {
		return r.Timeout
	}
	spent, _ := ctx.Value(spentKey{}).(time.Duration)
	return max(r.Timeout-spent, 1)
}
