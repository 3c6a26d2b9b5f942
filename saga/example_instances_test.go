package saga_test

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Nth makes instances of a question, to ask it of several things at once. Only
// the question itself is declared.
func Example_instances() {
	type args struct {
		Guests []string `json:"guests"`
	}
	type none struct{}
	type turn = saga.Turn[args, none]
	type mealForm struct {
		Meal string `json:"meal" enum:"fish|pasta"`
	}
	askMeal := &steps.Form[mealForm]{ID: "meal", Message: "Which meal?"}

	dinner := saga.Machine[args, none]{
		Info: saga.Info{
			Name: "plan_dinner",
			Asks: []steps.Question{askMeal},
		},
		Start: func(t *turn) (saga.Next, error) {
			var asks []steps.Request
			for i, guest := range t.Args.Guests {
				asks = append(asks, askMeal.Nth(i).With(steps.Message("Which meal for "+guest+"?")))
			}
			return t.Ask("chosen", asks...)
		},
		Steps: saga.Steps[args, none]{
			"chosen": func(t *turn) (saga.Next, error) {
				meals := map[string]int{}
				for i := range t.Args.Guests {
					choice, err := askMeal.Nth(i).Answer(t)
					if err != nil {
						return nil, err
					}
					meals[choice.Meal]++
				}
				return t.Textf("%s", fmt.Sprint(meals))
			},
		},
	}
	meal := func(name string) *client.ElicitResult { return client.Accept(fields{"meal": name}) }
	talk(dinner, map[string]any{"guests": []string{"Ada", "Ben", "Cleo"}}, meal("fish"), meal("pasta"), meal("fish"))
	// Output:
	// meal#0 asks: Which meal for Ada?
	// meal#1 asks: Which meal for Ben?
	// meal#2 asks: Which meal for Cleo?
	// result: map[fish:2 pasta:1]
}
