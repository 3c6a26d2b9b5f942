package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/audit"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Hooks cannot refuse undoing: those inside of one that would see the turn all the same, and its effects know whose they are.
func TestUndoThatAHookRefusesIsWritten(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(context.Context, func(context.Context) error) error{
		"with an error": func(context.Context, func(context.Context) error) error { return errors.New("no") },
		"by a panic":    func(context.Context, func(context.Context) error) error { panic("no") },
		"by being late": func(ctx context.Context, next func(context.Context) error) error { <-ctx.Done(); return next(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shop{t: t}
			keys, err := codec.NewKeyset()
			require.NoError(t, err)
			var later atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			first := server.Hooks{
				Turn: func(ctx context.Context, i *server.TurnInfo, next func(context.Context) error) error {
					if i.Action == "undo" {
						return refuse(ctx, next)
					}
					return next(ctx)
				},
				Effect: func(ctx context.Context, e *server.EffectInfo, next func(context.Context) error) error {
					assert.Equal(t, "order", e.Turn.Name)
					return next(ctx)
				},
			}
			srv, err := server.New(server.Options{
				Keys: keys, Tools: []saga.Definition{order(func() error { return nil })}, Logger: slog.New(slog.DiscardHandler), Now: now,
				Ledger: ledger.NewMemory(ledger.MemoryOptions{Now: now}), TokenTTL: time.Minute, TurnTimeout: time.Second,
				Hooks: []server.Hooks{first, audit.New(s, audit.Options{}).Hooks()},
			})
			require.NoError(t, err)
			defer srv.Close()
			_, err = srv.Handle(t.Context(), &server.Request{Method: "tools/callSaga", Params: json.RawMessage(called), Caller: ann})
			require.NoError(t, err)
			later.Store(int64(5 * time.Minute))
			var lines []audit.Record
			require.Eventually(t, func() bool { lines = s.lines(); return len(lines) == 4 }, 20*time.Second, 10*time.Millisecond)
			effect, turn := lines[2], lines[3]
			assert.Equal(t, []string{"undo effect", "done"}, []string{effect.Act, effect.Outcome})
			assert.Equal(t, []string{"undo", "done"}, []string{turn.Act, turn.Outcome})
			for _, r := range lines {
				assert.Equal(t, lines[0].Saga, r.Saga)
				assert.Equal(t, "order", r.Name)
				assert.Equal(t, ann.Subject, r.Caller.Subject)
			}
		})
	}
}
