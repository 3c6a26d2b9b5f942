package saga_test

import (
	"fmt"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A flow of a newer revision goes on from the record of an older one: it finds
// answers by the questions' names and asks what is new. Renamed tells the names
// that have changed.
func ExampleFlow_revisions() {
	type none struct{}
	type cityForm struct {
		City string `json:"city"`
	}
	type dayForm struct {
		Day string `json:"day" format:"date"`
	}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askPlace := &steps.Form[cityForm]{ID: "place", Message: "Where do you want to go?"}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Shall I book it?"}
	old := saga.Flow[none, string]{
		Info: saga.Info{
			Name: "book", Revision: 1,
			Asks: []steps.Question{askPlace, askConfirm},
		},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Ask(r, askPlace); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, askConfirm)
			return "Booked.", err
		},
	}

	askCity := &steps.Form[cityForm]{ID: "city", Message: "Where do you want to go?"}
	askDay := &steps.Form[dayForm]{ID: "day", Message: "On what day?"}
	book := saga.Flow[none, string]{
		Info: saga.Info{
			Name:     "book",
			Revision: 2,
			Renamed:  map[string]string{"place": "city"}, // "place" of revision 1 is "city" now
			Asks:     []steps.Question{askCity, askDay, askConfirm},
		},
		Oldest: 1, // sagas of revision 1 go on
		Run: func(r *saga.Run, _ none) (string, error) {
			city, err := saga.Ask(r, askCity)
			if err != nil {
				return "", err
			}
			day, err := saga.Ask(r, askDay) // new in revision 2
			if err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			return fmt.Sprintf("Booked: %s on %s.", city.City, day.Day), nil
		},
	}

	s := begin(old, steps.AllFeatures(), `{}`)
	s.accept("place", `{"city":"Rome"}`)
	fmt.Println("deployed: revision 2")
	s.deploy(book)
	s.accept("confirm", `{"sure":true}`)
	s.accept("day", `{"day":"2026-12-24"}`)
	// Output:
	// asked: place
	// asked: confirm
	// deployed: revision 2
	// asked: day
	// caller: Booked: Rome on 2026-12-24.
}

// A server can have several revisions of a tool. The newest is called; the older
// ones end the sagas that they began. A replica that is older than a token sends
// its client elsewhere, and a revision that no replica has any more is undone.
func Example_revisionsSideBySide() {
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	revision := func(n uint32) saga.Definition {
		f := bookTrip(desk{}, desk{})
		f.Revision, f.Oldest = n, n // it reads no other
		return f
	}
	old := serveWith(server.Options{Keys: keys, Tools: []saga.Definition{revision(1)}})
	both := serveWith(server.Options{Keys: keys, Tools: []saga.Definition{revision(2), revision(1)}})
	only := serveWith(server.Options{Keys: keys, Tools: []saga.Definition{revision(2)}})
	flight := []object{accepted("flight", object{"sure": true})}

	first, second := holdingRoom(old), holdingRoom(both)

	fmt.Println("- a saga of revision 1 where 1 and 2 are served")
	if r := request(both, "tools/resumeSaga", object{"sagaToken": first, "completedSteps": flight}); r.Error == nil {
		fmt.Println("it goes on")
	}
	fmt.Println("- a saga of revision 2 where only 1 is served")
	request(old, "tools/resumeSaga", object{"sagaToken": second, "completedSteps": flight}).print()
	fmt.Println("- a saga of revision 1 where only 2 is served")
	request(only, "tools/resumeSaga", object{"sagaToken": first, "completedSteps": flight}).print()
	// Output:
	// desk: hold
	// desk: hold
	// - a saga of revision 1 where 1 and 2 are served
	// desk: hold
	// it goes on
	// - a saga of revision 2 where only 1 is served
	// HTTP 503, error -31503: this server is older than the saga: send the same request again
	// - a saga of revision 1 where only 2 is served
	// caller: The saga cannot go on: this version of the tool is no longer served. Start again.
	// caller: Undone: hold-room.
	// report: {"undone":["hold-room"],"outstanding":[]}
}
