package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/hook"
)

// ErrHookLate is the reason why a turn was not taken: the hook was not done with it when the time of the turn was
// over. Nothing has happened, so the same request may be made again.
var ErrHookLate = fmt.Errorf("a hook took longer than a turn may: %w", context.DeadlineExceeded)

// hookTime is how long the hook of a turn has. Its clock stands still while next takes the turn, which has what is
// left by then: a turn that sleeps first is not late.
type hookTime struct {
	left, spent time.Duration
	began       time.Time
	timer       *time.Timer
	end         context.CancelCauseFunc
}

// spentKey is of the time that a hook has used of its turn, a [time.Duration].
type spentKey struct{}

// timeHook returns the context of a hook around t, and its clock; nil if nothing bounds turns. The end of the time is
// logged when it comes, as a hook may ignore it.
func (r *Runner) timeHook(ctx context.Context, t *Turn) (context.Context, *hookTime) {
	if r.Timeout <= 0 {
		return ctx, nil
	}
	h := &hookTime{left: r.Timeout, began: time.Now()}
	ctx, h.end = context.WithCancelCause(ctx)
	logged := ctx
	h.timer = time.AfterFunc(h.left, func() {
		h.end(ErrHookLate)
		name := ""
		if t.Program != nil {
			name = t.Program.Name
		}
		r.Log.WarnContext(logged, "a hook takes longer than a turn may, and its context has ended", "tool", name, "saga", t.Saga.String(), "action", t.Action)
	})
	return ctx, h
}

// pause stops the clock, and returns the context for what comes next. It fails if the time is over.
func (h *hookTime) pause(ctx context.Context) (context.Context, error) {
	if h == nil {
		return ctx, nil
	}
	if !h.timer.Stop() {
		return nil, ErrHookLate
	}
	took := time.Since(h.began)
	h.left, h.spent = h.left-took, h.spent+took
	return context.WithValue(ctx, spentKey{}, h.spent), nil
}

// goOn has the clock go on, for what the hook does after the turn.
func (h *hookTime) goOn() {
	if h != nil {
		h.began = time.Now()
		h.timer.Reset(h.left)
	}
}

// stop is called when the hook has returned. It returns the error that counts: a hook whose time is over has refused nothing.
func (h *hookTime) stop(ctx context.Context, err error) error {
	if h == nil {
		return err
	}
	h.timer.Stop()
	late := errors.Is(context.Cause(ctx), ErrHookLate)
	h.end(nil)
	if late && !errors.As(err, new(*hook.PanicError)) { // what it makes of that is no refusal
		return ErrHookLate
	}
	return err
}

// limit is how long a turn may take of which its hook has had a part.
func (r *Runner) limit(ctx context.Context) time.Duration {
	if r.Hook == nil || r.Timeout <= 0 {
		return r.Timeout
	}
	spent, _ := ctx.Value(spentKey{}).(time.Duration)
	return max(r.Timeout-spent, 1)
}
