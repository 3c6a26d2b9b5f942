package saga_test

import (
	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A form and a question to the model go out in one response. The next step
// function runs when both are answered, in whatever order that happens.
func Example_severalQuestions() {
	type args struct {
		Text string `json:"text"`
	}
	type state struct{}
	type turn = saga.Turn[args, state]
	type language struct {
		Language string `json:"language" enum:"de=German|fr=French|it=Italian"`
	}
	askLanguage := &steps.Form[language]{ID: "language", Message: "Which language do you want?"}
	askTone := &steps.Sample{ID: "tone", Request: steps.SampleRequest{MaxTokens: 10}}

	translate := saga.Machine[args, state]{
		Info: saga.Info{
			Name: "prepare_translation",
			Asks: []steps.Question{askLanguage, askTone},
		},
		Start: func(t *turn) (saga.Next, error) {
			return t.Ask("answered", askLanguage, askTone.With(steps.Promptf("Name the tone of this text in one word: %s", t.Args.Text)))
		},
		Steps: saga.Steps[args, state]{
			"answered": func(t *turn) (saga.Next, error) {
				to, err := askLanguage.Answer(t)
				if err != nil {
					return nil, err
				}
				tone, err := askTone.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Textf("To %s, and keep it %s.", to.Language, tone.Text())
			},
		},
	}
	talk(translate, map[string]any{"text": "Dear all"}, client.Accept(fields{"language": "fr"}), "polite")
	// Output:
	// language asks: Which language do you want?
	// tone asks the model: Name the tone of this text in one word: Dear all
	// result: To fr, and keep it polite.
}
