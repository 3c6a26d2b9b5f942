package saga_test

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The tool of the example "state" again, written as a flow: one function from
// beginning to end. The conversation is the same.
func ExampleFlow() {
	type args struct{}
	type cityForm struct {
		City string `json:"city" minLength:"2"`
	}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askCity := &steps.Form[cityForm]{ID: "city", Message: "Where do you want to go?"}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Shall I book it?"}

	book := saga.Flow[args, string]{
		Info: saga.Info{
			Name: "book_trip",
			Asks: []steps.Question{askCity, askConfirm},
		},
		Run: func(r *saga.Run, _ args) (string, error) {
			city, err := saga.Ask(r, askCity)
			if err != nil {
				return "", err
			}
			confirm, err := saga.Ask(r, askConfirm.With(steps.Message("Shall I book a trip to "+city.City+"?")))
			if err != nil {
				return "", err
			}
			if !confirm.Sure {
				return "Nothing was booked.", nil
			}
			return "Booked: " + city.City + ".", nil
		},
	}
	talk(book, nil, client.Accept(fields{"city": "Rome"}), client.Accept(fields{"sure": true}))
	// Output:
	// city asks: Where do you want to go?
	// confirm asks: Shall I book a trip to Rome?
	// result: Booked: Rome.
}

// Several questions go out in one round, and a loop asks again. Each time the flow
// runs, it does the same as before; what was answered comes from the record.
func ExampleRun_AskAll() {
	type none struct{}
	type numberForm struct {
		Number int `json:"number" minimum:"1" maximum:"9"`
	}
	askFirst := &steps.Form[numberForm]{ID: "first", Message: "Your number?"}
	askSecond := &steps.Form[numberForm]{ID: "second", Message: "And your friend's?"}

	runs := 0
	different := saga.Flow[none, string]{
		Info: saga.Info{
			Name: "different",
			Asks: []steps.Question{askFirst, askSecond},
		},
		Run: func(r *saga.Run, _ none) (string, error) {
			runs++
			for range 5 {
				if err := r.AskAll(askFirst, askSecond); err != nil {
					return "", err
				}
				first, err := askFirst.Answer(r)
				if err != nil {
					return "", err
				}
				second, err := askSecond.Answer(r)
				if err != nil {
					return "", err
				}
				if first != second {
					return fmt.Sprintf("%d and %d, in run %d.", first.Number, second.Number, runs), nil
				}
			}
			return "", saga.Failf("The numbers are still the same.")
		},
	}
	number := func(n int) *client.ElicitResult { return client.Accept(fields{"number": n}) }
	talk(different, nil, number(7), number(7), number(7), number(8))
	// Output:
	// first asks: Your number?
	// second asks: And your friend's?
	// first~2 asks: Your number?
	// second~2 asks: And your friend's?
	// result: 7 and 8, in run 3.
}

// What may differ the next time the flow runs comes from the Run, which remembers.
func ExampleRun_Now() {
	type none struct{}
	type ready struct {
		Ready bool `json:"ready"`
	}
	askReady := &steps.Form[ready]{ID: "ready", Message: "Ready?"}

	var begun, ids, dice []any
	draw := saga.Flow[none, string]{
		Info: saga.Info{
			Name: "draw_lots",
			Asks: []steps.Question{askReady},
		},
		Run: func(r *saga.Run, _ none) (string, error) {
			begun = append(begun, r.Now())
			ids = append(ids, r.NewID())
			dice = append(dice, r.Rand().IntN(1_000_000))
			if _, err := saga.Ask(r, askReady); err != nil {
				return "", err
			}
			return "Drawn.", nil
		},
	}
	talk(draw, nil, client.Accept(fields{"ready": true}))
	fmt.Println("runs:", len(begun))
	fmt.Println("the same:", begun[0] == begun[1], ids[0] == ids[1], dice[0] == dice[1])
	// Output:
	// ready asks: Ready?
	// result: Drawn.
	// runs: 2
	// the same: true true true
}

// A flow that goes on after it has asked is stopped, and the log says which
// question was swallowed.
func Example_swallowedError() {
	type none struct{}
	type nameForm struct {
		Name string `json:"name"`
	}
	askName := &steps.Form[nameForm]{ID: "name", Message: "Who are you?"}

	greet := saga.Flow[none, string]{
		Info: saga.Info{
			Name: "greet",
			Asks: []steps.Question{askName},
		},
		Run: func(r *saga.Run, _ none) (string, error) {
			name, err := saga.Ask(r, askName)
			if err != nil {
				return "Hello, stranger.", nil // wrong: the error says that the saga waits
			}
			return "Hello, " + name.Name + ".", nil
		},
	}
	begin(greet, steps.AllFeatures(), `{}`)
	// Output:
	// caller: The tool failed. Its operator can find the reason in the log under the saga 00000000000000000000000000000000.
	// log: tool "greet", step function "start": the flow asked "name" and then returned a result; it must return the error that asking returned, as it is or wrapped with %w
}

// The tool of the first example as a flow.
func Example_lunchAsAFlow() {
	lunch := saga.Flow[order, string]{
		Info: saga.Info{
			Name: "order_lunch",
			Asks: []steps.Question{askMeal},
		},
		Run: func(r *saga.Run, in order) (string, error) {
			meal, err := saga.Ask(r, askMeal)
			if err != nil {
				return "", err // the saga waits, or the user declined
			}
			return "Ordered " + meal.Dish + " for " + in.Office + ".", nil
		},
	}
	talk(lunch, map[string]any{"office": "Oslo"}, client.Accept(meal{Dish: "pasta"}))
	// Output:
	// meal asks: What would you like?
	// result: Ordered pasta for Oslo.
}
