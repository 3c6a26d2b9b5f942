package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Rooms in several cities are held at the same time. If one cannot be had, those that were held are released, as if they
// had been held one after the other.
func ExampleDoAll() {
	type tour struct {
		Cities []string `json:"cities"`
	}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Shall I look for rooms?"}

	var mu sync.Mutex // for what Do and its copies share
	held := map[saga.Key]string{}
	holdRoom := &saga.Effect[string, string]{
		Name:   "hold-room",
		AtOnce: 4,
		Do: func(_ context.Context, key saga.Key, city string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if city == "Oslo" {
				return "", saga.Refused(errors.New("all rooms in Oslo are taken"))
			}
			held[key] = city
			return "a room in " + city, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, string]) error {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println("released:", p.In)
			delete(held, p.Key)
			return nil
		},
	}

	book := saga.Flow[tour, string]{
		Info: saga.Info{Name: "book_tour", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{holdRoom}},
		Run: func(r *saga.Run, in tour) (string, error) {
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			rooms, err := saga.DoAll(r, holdRoom, in.Cities)
			if err != nil {
				return "", saga.Failf("There is not a room in each city: %w.", err)
			}
			return "You have " + strings.Join(rooms, ", ") + ".", nil
		},
	}
	yes := client.Accept(fields{"sure": true})
	talk(book, fields{"cities": []string{"Rome", "Bern", "Paris"}}, yes)
	talk(book, fields{"cities": []string{"Rome", "Oslo", "Paris"}}, yes)
	// Output:
	// confirm asks: Shall I look for rooms?
	// result: You have a room in Rome, a room in Bern, a room in Paris.
	// confirm asks: Shall I look for rooms?
	// released: Paris
	// released: Rome
	// error: There is not a room in each city: 1 of 3 effects failed, the first with input 1: effect "hold-room": all rooms in Oslo are taken.
	// Undone: hold-room, hold-room.
}
