package saga_test

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A Secret in the state reaches the next step function, but neither a log nor the
// compressed part of the token.
func ExampleSecret() {
	type none struct{}
	type state struct {
		Session saga.Secret
	}
	type turn = saga.Turn[none, state]
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Shall I go on?"}

	login := saga.Machine[none, state]{
		Info: saga.Info{
			Name: "fetch_report",
			Asks: []steps.Question{askConfirm},
		},
		Start: func(t *turn) (saga.Next, error) {
			t.State.Session = saga.NewSecret("s3cr3t-of-the-server")
			fmt.Println("printed:", t.State)
			return t.Ask("confirmed", askConfirm)
		},
		Steps: saga.Steps[none, state]{
			"confirmed": func(t *turn) (saga.Next, error) {
				if _, err := askConfirm.Answer(t); err != nil {
					return nil, err
				}
				session := t.State.Session.Reveal() // for the system that wants it
				return t.Textf("The session's secret has %d characters.", len(session))
			},
		},
	}
	talk(login, nil, client.Accept(fields{"sure": true}))
	// Output:
	// printed: {[secret]}
	// confirm asks: Shall I go on?
	// result: The session's secret has 20 characters.
}
