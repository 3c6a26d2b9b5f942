package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Rooms in several cities are held at the same time. If one cannot be had, the error says which; the flow offers the
// others, and when the user declines, these are undone as if they had been held one after the other.
func ExampleDoAll() {
	type tour struct {
		Cities []string `json:"cities"`
	}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Shall I look for rooms?"}
	askOthers := &steps.Form[confirmForm]{ID: "others", Message: "Do you take the others?"}

	var mu sync.Mutex // for what Do and its copies share
	held := map[saga.Key]string{}
	holdRoom := &saga.Effect[string, string]{
		Name:   "hold-room",
		AtOnce: 4,
		Do: func(_ context.Context, key saga.Key, city string) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if city == "Oslo" {
				return "", saga.Refused(errors.New("all rooms are taken"))
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
		Info: saga.Info{
			Name:    "book_tour",
			Asks:    []steps.Question{askConfirm, askOthers},
			Effects: []saga.Declared{holdRoom},
		},
		Run: func(r *saga.Run, in tour) (string, error) {
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			rooms, err := saga.DoAll(r, holdRoom, in.Cities)
			if some, ok := errors.AsType[saga.EffectErrors](err); ok {
				var missing []string
				for i, failed := range some {
					if failed != nil {
						missing = append(missing, in.Cities[i])
					}
				}
				_, err = saga.Ask(r, askOthers.With(steps.Message("There is no room in "+strings.Join(missing, ", ")+". Do you take the others?")))
			}
			if err != nil {
				return "", err
			}
			rooms = slices.DeleteFunc(rooms, func(room string) bool { return room == "" })
			return "You have " + strings.Join(rooms, ", ") + ".", nil
		},
	}
	yes := client.Accept(fields{"sure": true})
	talk(book, fields{"cities": []string{"Rome", "Bern", "Paris"}}, yes)
	fmt.Println()
	talk(book, fields{"cities": []string{"Rome", "Oslo", "Paris"}}, yes, yes)
	fmt.Println()
	talk(book, fields{"cities": []string{"Rome", "Oslo", "Paris"}}, yes, client.Decline())
	// Output:
	// confirm asks: Shall I look for rooms?
	// result: You have a room in Rome, a room in Bern, a room in Paris.
	//
	// confirm asks: Shall I look for rooms?
	// others asks: There is no room in Oslo. Do you take the others?
	// result: You have a room in Rome, a room in Paris.
	//
	// confirm asks: Shall I look for rooms?
	// others asks: There is no room in Oslo. Do you take the others?
	// released: Paris
	// released: Rome
	// error: Stopped: "others" was declined.
	// Undone: hold-room, hold-room.
}
