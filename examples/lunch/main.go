// Command lunch is the server of docs/start.md: one tool that asks, on standard input and
// output, or over HTTP at the address that it is given.
//
//	go run ./cmd/saga call --stdio 'go run ./examples/lunch' order_lunch office=Berlin
//
//	go run ./examples/lunch 127.0.0.1:8081
//	go run ./cmd/saga call --server http://127.0.0.1:8081 order_lunch office=Berlin
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/mcpsaga/mcpsaga/codec"
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
	keys, err := codec.NewKeyset() // new keys at each start: for development only
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(server.Options{Tools: []saga.Definition{lunch}, Keys: keys})
	if err != nil {
		log.Fatal(err)
	}
	if len(os.Args) > 1 { // an address, such as 127.0.0.1:8081
		log.Fatal(http.ListenAndServe(os.Args[1], s.Handler()))
	}
	if err := s.ServeStdio(context.Background(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
