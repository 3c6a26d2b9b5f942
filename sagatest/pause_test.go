package sagatest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// TestPauses plays and sweeps a tool with turns that ask nothing.
func TestPauses(t *testing.T) {
	type rows struct {
		Rows int `json:"rows" minimum:"1"`
	}
	type state struct{ Rows, Done int }
	type turn = saga.Turn[struct{}, state]
	ask := &steps.Form[rows]{ID: "rows", Message: "How many rows?"}
	importer := saga.Machine[struct{}, state]{
		Info:  saga.Info{Name: "import", Asks: []steps.Question{ask}},
		Start: func(t *turn) (saga.Next, error) { return t.Pause("begin") },
		Steps: saga.Steps[struct{}, state]{
			"begin": func(t *turn) (saga.Next, error) { return t.Ask("asked", ask) },
			"asked": func(t *turn) (saga.Next, error) {
				a, err := ask.Answer(t)
				t.State.Rows = a.Rows
				if err != nil {
					return nil, err
				}
				return t.Goto("some")
			},
			"some": func(t *turn) (saga.Next, error) {
				if t.State.Done++; t.State.Done < t.State.Rows {
					return t.Pause("some")
				}
				return t.Textf("%d rows", t.State.Done)
			},
		},
	}
	script := []answer{accept("rows", map[string]any{"rows": 3})}
	played := sagatest.Player{}.Play(t, importer, nil, script...)
	assert.Equal(t, "3 rows", played.Text())
	sagatest.Sweep(t, sagatest.Case{Tool: importer, Script: script})
}
