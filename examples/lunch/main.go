// Command lunch serves the first tool of the documentation.
//
//	go run ./examples/lunch
//	go run ./cmd/saga call --server http://127.0.0.1:8081 order_lunch office=Berlin
package main

import (
	"context"
	"log"
	"net"
	"os"
	"os/signal"

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

type turn = saga.Turn[order, struct{}] // arguments and state

var askMeal = &steps.Form[meal]{ID: "meal", Message: "What would you like?"}

// Lunch asks which dish it is to be.
var Lunch = saga.Machine[order, struct{}]{
	Info: saga.Info{
		Name: "order_lunch",
		Asks: []steps.Question{askMeal},
	},
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

func main() {
	keys, err := codec.NewKeyset() // in production: codec.LoadKeyset(path), the same for all replicas
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.New(server.Options{Tools: []saga.Definition{Lunch}, Keys: keys})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:8081")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log.Printf("serving http://%s%s", l.Addr(), server.Endpoint)
	if err := s.Serve(ctx, l); err != nil {
		log.Print(err)
	}
}
