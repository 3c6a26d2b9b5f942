package interop

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// anything fills in a form, whatever it is.
func anything(a sagatest.Asked) sagatest.Answer {
	if a.Kind == steps.Sampling {
		return sagatest.Say(a.Question, "Certainly.")
	}
	if a.Kind == steps.Roots {
		return sagatest.Roots(a.Question, "file:///work")
	}
	filled := map[string]any{}
	for _, f := range a.Form().Fields {
		switch {
		case f.Multiple:
			filled[f.Name] = []string{f.Choices[0].Value}
		case len(f.Choices) > 0:
			filled[f.Name] = f.Choices[0].Value
		case f.Type == "boolean":
			filled[f.Name] = true
		case f.Type != "string":
			filled[f.Name] = 7
		default:
			filled[f.Name] = "something"
		}
	}
	return sagatest.Accept(a.Question, filled)
}

func TestSweepEverything(t *testing.T) {
	args := map[string]any{"test_sampling": map[string]string{"prompt": "Hello?"}, "test_elicitation": map[string]string{"message": "Who are you?"}, "confirm_delete": map[string]string{"filename": "a.txt"}}
	swept := 0
	for _, d := range fixtures(func() listChanges { return nil }) {
		tool, err := d.Compile()
		require.NoError(t, err)
		if tool.Tasks.Mode == engine.TasksRequired {
			continue // no client can drive it
		}
		if len(tool.Asks) == 0 || tool.Name == "test_input_required_result_capabilities" { // asks for one of three
			continue
		}
		c := sagatest.Case{Tool: d, Args: args[tool.Name]}
		for _, q := range tool.Asks {
			c.Script = append(c.Script, sagatest.Func(q.StepID(), anything))
		}
		t.Run(tool.Name, func(t *testing.T) { sagatest.Sweep(t, c) })
		swept++
	}
	assert.Greater(t, swept, 5)
}
