package saga_test

import (
	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The state carries what later step functions need: answers can be read right
// after the suspension only.
func Example_state() {
	type args struct{}
	type state struct {
		City string `json:"city"`
	}
	type turn = saga.Turn[args, state]
	type cityForm struct {
		City string `json:"city" minLength:"2"`
	}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askCity := &steps.Form[cityForm]{ID: "city", Message: "Where do you want to go?"}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Shall I book it?"}

	book := saga.Machine[args, state]{
		Info: saga.Info{
			Name: "book_trip",
			Asks: []steps.Question{askCity, askConfirm},
		},
		Start: func(t *turn) (saga.Next, error) {
			return t.Ask("city", askCity)
		},
		Steps: saga.Steps[args, state]{
			"city": func(t *turn) (saga.Next, error) {
				form, err := askCity.Answer(t)
				if err != nil {
					return nil, err
				}
				t.State.City = form.City
				return t.Ask("confirmed", askConfirm.With(steps.Message("Shall I book a trip to "+form.City+"?")))
			},
			"confirmed": func(t *turn) (saga.Next, error) {
				form, err := askConfirm.Answer(t)
				if err != nil {
					return nil, err
				}
				if !form.Sure {
					return t.Textf("Nothing was booked.")
				}
				return t.Textf("Booked: %s.", t.State.City)
			},
		},
	}
	talk(book, nil, client.Accept(fields{"city": "Rome"}), client.Accept(fields{"sure": true}))
	// Output:
	// city asks: Where do you want to go?
	// confirm asks: Shall I book a trip to Rome?
	// result: Booked: Rome.
}
