package saga_test

import (
	"errors"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Not every client can do everything. Otherwise says what to ask a client that
// lacks what the first question needs.
func Example_otherwise() {
	type none struct{}
	type turn = saga.Turn[none, none]
	type cityForm struct {
		City string `json:"city"`
	}
	askMap := &steps.Link{ID: "map", Message: "Pick the place on the map.", URL: "https://maps.example.com/pick"}
	askCity := &steps.Form[cityForm]{ID: "city", Message: "Which city is it in?"}

	tool := saga.Machine[none, none]{
		Info: saga.Info{
			Name: "place",
			Asks: []steps.Question{askMap, askCity},
		},
		Start: func(t *turn) (saga.Next, error) {
			return t.Ask("picked", steps.Otherwise(askMap, askCity))
		},
		Steps: saga.Steps[none, none]{
			"picked": func(t *turn) (saga.Next, error) {
				err := askMap.Answer(t)
				if errors.Is(err, steps.ErrNotAsked) {
					form, err := askCity.Answer(t)
					if err != nil {
						return nil, err
					}
					return t.Textf("In %s.", form.City)
				}
				if err != nil {
					return nil, err
				}
				return t.Textf("As picked on the map.")
			},
		},
	}
	begin(tool, steps.AllFeatures(), `{}`)
	begin(tool, steps.Features{Forms: true}, `{}`)
	begin(tool, steps.Features{Sampling: true}, `{}`)
	// Output:
	// asked: map
	// asked: city
	// failed: tool "place", step function "start": tool "place" cannot ask step "map": it needs a client with elicitation.url
}

// Can tells what the client can do, for a tool that wants to go another way.
func ExampleTurn_Can() {
	type none struct{}
	type turn = saga.Turn[none, none]
	type textForm struct {
		Text string `json:"text"`
	}
	askModel := &steps.Sample{ID: "draft", Request: steps.SampleRequest{MaxTokens: 200}}
	askText := &steps.Form[textForm]{ID: "text", Message: "Please write the announcement."}

	tool := saga.Machine[none, none]{
		Info: saga.Info{
			Name: "announce",
			Asks: []steps.Question{askModel, askText},
		},
		Start: func(t *turn) (saga.Next, error) {
			if t.Can(steps.Features{Sampling: true}) {
				return t.Ask("written", askModel.With(steps.Promptf("Write an announcement.")))
			}
			return t.Ask("written", askText)
		},
		Steps: saga.Steps[none, none]{
			"written": func(t *turn) (saga.Next, error) { return t.Textf("Announced.") },
		},
	}
	begin(tool, steps.AllFeatures(), `{}`)
	begin(tool, steps.Features{Forms: true}, `{}`)
	// Output:
	// asked: draft
	// asked: text
}
