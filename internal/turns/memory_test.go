package turns

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// awayMemory is one whose database does not answer.
type awayMemory struct{ Memory }

var errAway = errors.New("the database is away")

func (awayMemory) Mark(context.Context) ([]byte, error) { return nil, errAway }

// A turn of a program that waits for no events does not ask the memory for what only those need.
func TestOnlyEventsNeedAMark(t *testing.T) {
	paid := &steps.Event[struct{}]{ID: "paid", Message: "Waiting.", Within: time.Hour}
	for name, asks := range map[string][]steps.Question{"asks nothing": nil, "waits": {paid}} {
		tool := saga.Flow[struct{}, string]{Info: saga.Info{Name: "tool", Asks: asks}, Run: func(*saga.Run, struct{}) (string, error) { return "", nil }}
		r := newRunner(t, tool)
		p := r.Registry.Find(engine.KindTool, "tool")
		require.NoError(t, r.Mark(t.Context(), p, new(engine.Call)), "without a memory")
		r.Remember(awayMemory{})
		err := r.Mark(t.Context(), p, new(engine.Call))
		assert.Equal(t, asks != nil, errors.Is(err, errAway), name)
	}
}
