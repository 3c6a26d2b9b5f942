package saga_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A flow decides by how an effect has failed. Each error that it tests for is among the Fails of the effect, so that it
// decides alike when it runs again.
func ExampleEffect_fails() {
	type none struct{}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	errFull := errors.New("the hotel is full")
	askOther := &steps.Form[confirmForm]{ID: "other", Message: "The hotel is full. Do you take another one?"}
	hold := &saga.Effect[string, string]{
		Name:  "hold-room",
		Fails: []error{errFull},
		Do: func(_ context.Context, _ saga.Key, hotel string) (string, error) {
			if hotel == "Ritz" {
				return "", saga.Refused(fmt.Errorf("%s: %w", hotel, errFull))
			}
			return "a room in the " + hotel, nil
		},
	}
	book := saga.Flow[none, string]{
		Info: saga.Info{Name: "book_room", Asks: []steps.Question{askOther}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ none) (string, error) {
			room, err := saga.Do(r, hold, "Ritz")
			if errors.Is(err, errFull) {
				if _, err := saga.Ask(r, askOther); err != nil {
					return "", err
				}
				room, err = saga.Do(r, hold, "Savoy")
			}
			return "You have " + room + ".", err
		},
	}
	talk(book, nil, client.Accept(fields{"sure": true}))
	// Output:
	// other asks: The hotel is full. Do you take another one?
	// result: You have a room in the Savoy.
}
