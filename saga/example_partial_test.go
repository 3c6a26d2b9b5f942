package saga_test

import (
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A client answers one of two questions first, and is asked for the other.
func Example_partialAnswers() {
	type none struct{}
	type turn = saga.Turn[none, none]
	type fromForm struct {
		From string `json:"from"`
	}
	type toForm struct {
		To string `json:"to"`
	}
	askFrom := &steps.Form[fromForm]{ID: "from", Message: "From where?"}
	askTo := &steps.Form[toForm]{ID: "to", Message: "Where to?"}

	route := saga.Machine[none, none]{
		Info: saga.Info{
			Name: "route",
			Asks: []steps.Question{askFrom, askTo},
		},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("asked", askFrom, askTo) },
		Steps: saga.Steps[none, none]{
			"asked": func(t *turn) (saga.Next, error) {
				from, err := askFrom.Answer(t)
				if err != nil {
					return nil, err
				}
				to, err := askTo.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Textf("From %s to %s.", from.From, to.To)
			},
		},
	}
	s := begin(route, steps.AllFeatures(), `{}`)
	s.accept("to", `{"to":"Rome"}`)
	s.accept("from", `{"from":"Oslo"}`)
	// Output:
	// asked: from
	// asked: to
	// asked: from
	// caller: From Oslo to Rome.
}
