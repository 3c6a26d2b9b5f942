package saga_test

import (
	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A step function may ask the same question again and name itself as the next
// one: that is a loop. To the client each round is a step of its own, with a
// number after its id.
func Example_loop() {
	type none struct{}
	type state struct {
		Rounds int `json:"rounds,omitempty"`
	}
	type turn = saga.Turn[none, state]
	type guessForm struct {
		Number int `json:"number" minimum:"1" maximum:"10"`
	}
	askGuess := &steps.Form[guessForm]{ID: "guess", Message: "Guess a number from 1 to 10."}

	const secret = 7
	game := saga.Machine[none, state]{
		Info: saga.Info{
			Name: "guess",
			Asks: []steps.Question{askGuess},
		},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("guessed", askGuess) },
		Steps: saga.Steps[none, state]{
			"guessed": func(t *turn) (saga.Next, error) {
				guess, err := askGuess.Answer(t)
				if err != nil {
					return nil, err
				}
				t.State.Rounds++
				switch {
				case guess.Number < secret:
					return t.Ask("guessed", askGuess.With(steps.Message("More than that.")))
				case guess.Number > secret:
					return t.Ask("guessed", askGuess.With(steps.Message("Less than that.")))
				}
				return t.Textf("Found in round %d.", t.State.Rounds)
			},
		},
	}
	guess := func(n int) *client.ElicitResult { return client.Accept(fields{"number": n}) }
	talk(game, nil, guess(3), guess(9), guess(7))
	// Output:
	// guess asks: Guess a number from 1 to 10.
	// guess~2 asks: More than that.
	// guess~3 asks: Less than that.
	// result: Found in round 3.
}
