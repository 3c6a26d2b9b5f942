package saga_test

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A saga that was suspended by an older revision goes on in the new one, if that
// says how to make its state of the old.
func Example_upgrade() {
	type none struct{}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Shall I book it?"}

	type stateV1 struct {
		Place string `json:"place"`
	}
	old := saga.Machine[none, stateV1]{
		Info: saga.Info{
			Name: "book",
			Asks: []steps.Question{askConfirm},
		},
		Start: func(t *saga.Turn[none, stateV1]) (saga.Next, error) {
			t.State.Place = "Rome Italy"
			return t.Ask("sure", askConfirm)
		},
		Steps: saga.Steps[none, stateV1]{
			"sure": func(t *saga.Turn[none, stateV1]) (saga.Next, error) {
				return t.Textf("Booked: %s.", t.State.Place)
			},
		},
	}

	type state struct {
		City    string `json:"city"`
		Country string `json:"country"`
	}
	type turn = saga.Turn[none, state]
	book := saga.Machine[none, state]{
		Info: saga.Info{
			Name:     "book",
			Revision: 1,
			Renamed:  map[string]string{"sure": "confirmed"},
			Asks:     []steps.Question{askConfirm},
		},
		Upgrades: map[uint32]saga.Upgrade[state]{
			0: saga.From(func(old stateV1) (state, error) {
				var now state
				_, err := fmt.Sscanf(old.Place, "%s %s", &now.City, &now.Country)
				return now, err
			}),
		},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("confirmed", askConfirm) },
		Steps: saga.Steps[none, state]{
			"confirmed": func(t *turn) (saga.Next, error) {
				return t.Textf("Booked: %s in %s.", t.State.City, t.State.Country)
			},
		},
	}

	s := begin(old, steps.AllFeatures(), `{}`)
	s.deploy(book)
	s.accept("confirm", `{"sure":true}`)
	// Output:
	// asked: confirm
	// caller: Booked: Rome in Italy.
}
