package turns

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A lost turn that had performed nothing up to its first checkpoint can be undone as well.
func TestUndoOfATaskThatDidNothing(t *testing.T) {
	r := newRunner(t, saga.Machine[struct{}, int]{
		Info:  saga.Info{Name: "machine"},
		Start: func(t *saga.Turn[struct{}, int]) (saga.Next, error) { return t.Goto("on") },
		Steps: saga.Steps[struct{}, int]{"on": func(t *saga.Turn[struct{}, int]) (saga.Next, error) { return t.Textf("end") }},
	})
	turn := TaskTurn{
		Program: r.Registry.Find(engine.KindTool, "machine"), Saga: r.NewID(), Now: time.Now(), Arguments: []byte("{}"),
		Checkpoint: func(context.Context, *engine.Position) error { return nil },
	}
	end, err := r.UndoTask(t.Context(), turn, true, true, "")
	require.NoError(t, err)
	assert.Empty(t, UndoReport(end.Result).Undone)
}
