package saga_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// counter counts to three, with a pause after each number, and asks in the end.
func counter() (saga.Machine[struct{}, int], *steps.Form[struct{}]) {
	type turn = saga.Turn[struct{}, int]
	done := &steps.Form[struct{}]{ID: "done", Message: "Enough?"}
	count := func(t *turn) (saga.Next, error) {
		if t.State++; t.State < 3 {
			return t.Pause("count")
		}
		return t.Ask("asked", done)
	}
	return saga.Machine[struct{}, int]{
		Info: saga.Info{Name: "counter", Asks: []steps.Question{done}}, Start: count,
		Steps: saga.Steps[struct{}, int]{
			"count": count,
			"asked": func(t *turn) (saga.Next, error) { return t.Textf("%d", t.State) },
		},
	}, done
}

func TestPause(t *testing.T) {
	m, done := counter()
	tool, err := m.Compile()
	require.NoError(t, err)
	out, err := tool.Start(t.Context(), engine.Call{ID: saga.ID{1}, Client: steps.AllFeatures()})
	require.NoError(t, err)
	assert.Empty(t, out.Steps)
	first := out.Position
	for range 2 {
		require.NotNil(t, out.Position)
		// As if the token had gone to the client and come back.
		again := &engine.Position{ID: out.Position.ID, Turn: out.Position.Turn, Tool: "counter"}
		require.NoError(t, again.Restore(out.Position.Encode()))
		out, err = tool.Resume(t.Context(), again, engine.Call{Client: steps.AllFeatures()})
		require.NoError(t, err)
	}
	require.Len(t, out.Steps, 1)
	assert.Equal(t, done.ID, out.Steps[0].ID)
	assert.EqualValues(t, first.Turn+2, out.Position.Turn)

	cancelled, err := tool.Cancel(t.Context(), first, engine.Call{})
	require.NoError(t, err)
	assert.NotNil(t, cancelled.Result)
}

func TestPauseForAStepThatIsNotThere(t *testing.T) {
	tool, err := saga.Machine[struct{}, int]{Info: saga.Info{Name: "lost"}, Start: func(t *saga.Turn[struct{}, int]) (saga.Next, error) {
		return t.Pause("nowhere")
	}}.Compile()
	require.NoError(t, err)
	out, err := tool.Start(t.Context(), engine.Call{ID: saga.ID{1}})
	require.NoError(t, err)
	assert.True(t, out.Result.IsError)
	assert.ErrorContains(t, out.Err, `there is no step function "nowhere"; the tool's Steps must have it`)
}
