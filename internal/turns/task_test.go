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
		Identity: Identity{r.Registry.Find(engine.KindTool, "machine"), r.NewID()},
		Call:     engine.Call{Now: time.Now(), Arguments: []byte("{}"), Checkpoint: func(context.Context, *engine.Position) error { return nil }},
	}
	end, err := r.UndoTask(t.Context(), turn, true, true, "")
	require.NoError(t, err)
	assert.Empty(t, UndoReport(end.Result).Undone)
}

func TestTasksNeedALedger(t *testing.T) {
	tool := saga.Machine[struct{}, struct{}]{Info: saga.Info{Name: "long", Tasks: saga.Tasks{Mode: saga.TasksRequired}},
		Start: func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) { return t.Textf("done") }}
	tools, err := engine.NewRegistry(tool)
	require.NoError(t, err)
	err = NeedLedger(tools)
	var wrong *saga.DefinitionError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "its Tasks are required, for which the server needs a ledger", wrong.Problem)
	assert.NotContains(t, err.Error(), "\n", "it is said once")
}
