package saga_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A turn that breaks off and that nobody can take again undoes what it did; one
// that can be taken again leaves it.
func TestHeldTurns(t *testing.T) {
	type none struct{}
	for _, held := range []bool{true, false} {
		var done []string
		effect := &saga.Effect[none, none]{
			Name: "hold",
			Do:   func(context.Context, saga.Key, none) (none, error) { done = append(done, "held"); return none{}, nil },
			Undo: func(context.Context, saga.Performed[none, none]) error {
				done = append(done, "released")
				return errors.New("stuck")
			},
			Tries: 1,
		}
		ctx, stop := context.WithCancel(context.Background())
		tool, err := saga.Flow[none, string]{Info: saga.Info{Name: "t", Effects: []saga.Declared{effect}}, Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, effect, none{}); err != nil {
				return "", err
			}
			stop()
			return "", r.Err()
		}}.Compile()
		require.NoError(t, err)
		_, err = tool.Start(ctx, engine.Call{Now: time.Now(), Held: held})
		require.ErrorIs(t, err, context.Canceled)
		var undone *engine.UndoneError
		if !held {
			assert.False(t, errors.As(err, &undone))
			assert.Equal(t, []string{"held"}, done)
			continue
		}
		require.ErrorAs(t, err, &undone)
		assert.Equal(t, []string{"held", "released"}, done)
		assert.Equal(t, []string{"hold"}, undone.Report.Outstanding)
		assert.Contains(t, err.Error(), "hold")
		assert.Contains(t, errors.Join(undone.Unwrap()...).Error(), "stuck")
	}
}
