package turns

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A prompt that its answers have ended can no longer be cancelled, which a result says in place of its messages.
func TestCancelledPromptThatHasEnded(t *testing.T) {
	name := &steps.Form[struct{}]{ID: "name", Message: "Go on?"}
	type turn = saga.Turn[struct{}, struct{}]
	r := newRunner(t, saga.Prompt[struct{}, struct{}]{Machine: saga.Machine[struct{}, struct{}]{
		Info:  saga.Info{Name: "greet", Asks: []steps.Question{name}},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("end", name) },
		Steps: saga.Steps[struct{}, struct{}]{"end": func(t *turn) (saga.Next, error) {
			return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: "Hello."}})
		}},
	}})
	q := Request{Policy: Carried, Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindPrompt, "greet"), Arguments: json.RawMessage("{}")}
	begun, err := r.Call(t.Context(), q)
	require.NoError(t, err)
	q.Token, q.Answers = begun.Token, []steps.Answer{{StepID: "name", Result: json.RawMessage(`{"action":"accept","content":{}}`)}}
	end, err := r.Cancel(t.Context(), q)
	require.NoError(t, err)
	if assert.NotNil(t, end.Result) {
		assert.Equal(t, "It was too late to cancel: the prompt has ended.", end.Result.Content.Text())
	}
}
