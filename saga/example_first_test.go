package saga_test

import (
	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type order struct {
	Office string `json:"office" jsonschema:"where to deliver"`
}

type meal struct {
	Dish string `json:"dish" title:"Dish" enum:"soup=Soup of the day|pasta=Pasta"`
}

type turn = saga.Turn[order, struct{}] // arguments and state

var askMeal = &steps.Form[meal]{ID: "meal", Message: "What would you like?"}

var Lunch = saga.Machine[order, struct{}]{
	Info:  saga.Info{Name: "order_lunch", Asks: []steps.Question{askMeal}},
	Start: func(t *turn) (saga.Next, error) { return t.Ask("chosen", askMeal) },
	Steps: saga.Steps[order, struct{}]{"chosen": chosen},
}

func chosen(t *turn) (saga.Next, error) {
	meal, err := askMeal.Answer(t)
	if err != nil {
		return nil, err // the user declined, or closed the form
	}
	return t.Textf("Ordered %s for %s.", meal.Dish, t.Args.Office)
}

// A tool that asks one question. Between the question and the answer there is
// nothing on the server; any other server with the same keys can take the answer.
func Example() {
	talk(Lunch, map[string]any{"office": "Oslo"}, client.Accept(meal{Dish: "soup"}))
	// Output:
	// meal asks: What would you like?
	// result: Ordered soup for Oslo.
}
