// Command lunch is the server of docs/start.md: one tool that asks.
//
//	go run ./examples/lunch serve
//	go run ./examples/lunch call order_lunch office=Berlin     # in another terminal
package main

import (
	"github.com/mcpsaga/mcpsaga/cmd/program"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type order struct {
	Office string `json:"office" jsonschema:"where to deliver"`
}

type meal struct {
	Dish string `json:"dish" title:"Dish" enum:"soup=Soup of the day|pasta=Pasta"`
}

var askMeal = &steps.Form[meal]{ID: "meal", Message: "What would you like?"}

var lunch = saga.Flow[order, string]{
	Info: saga.Info{Name: "order_lunch", Description: "Orders lunch.", Asks: []steps.Question{askMeal}},
	Run: func(r *saga.Run, in order) (string, error) {
		meal, err := saga.Ask(r, askMeal)
		if err != nil {
			return "", err // it waits for the answer, or the user declined
		}
		return "Ordered " + meal.Dish + " for " + in.Office + ".", nil
	},
}

func main() {
	program.Main(program.Options{Server: server.Options{Name: "lunch", Tools: []saga.Definition{lunch}}})
}
