package turns

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/hook"
	"github.com/mcpsaga/mcpsaga/saga"
)

type nothing struct{}

// A turn that panics outside of the tool's code is no success, whatever the hook makes of it.
func TestATurnThatPanicsWithinAHook(t *testing.T) {
	r := newRunner(t, saga.Flow[nothing, string]{Info: saga.Info{Name: "x"}, Run: func(*saga.Run, nothing) (string, error) { return "done", nil }})
	r.Now = func() time.Time { panic("oops") }
	r.Hook = func(ctx context.Context, _ *Turn, next func(context.Context) error) error { _ = next(ctx); return nil }
	_, err := r.Call(t.Context(), Request{Policy: Carried, Program: r.Registry.Find(engine.KindTool, "x")})
	require.ErrorAs(t, err, new(*hook.PanicError))
}
