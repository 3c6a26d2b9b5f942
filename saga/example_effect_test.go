package saga_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// desk is a hotel's reservation desk as it should be: it knows keys. A key that
// comes again changes nothing, one that was released is never held again, and what
// is paid is not released.
type desk map[saga.Key]string // "held", "released" or "paid"

func (d desk) hold(key saga.Key) error {
	switch d[key] {
	case "":
		d[key] = "held"
		fmt.Println("desk: hold")
	case "released":
		return saga.Refused(errors.New("the room was released"))
	}
	return nil
}

func (d desk) release(key saga.Key) error {
	switch d[key] {
	case "paid":
		return saga.Final(errors.New("the room is paid"))
	case "held":
		fmt.Println("desk: release")
	}
	d[key] = "released"
	return nil
}

// An effect is declared with what reverses it. It is performed once, however often
// the flow runs, and undone if the saga ends badly.
func ExampleEffect() {
	type none struct{}
	type cityForm struct {
		City string `json:"city"`
	}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askCity := &steps.Form[cityForm]{ID: "city", Message: "Where do you want to stay?"}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "A room is held for you. Do you take it?"}

	rooms := desk{}
	type stay struct {
		City string `json:"city"`
	}
	holdRoom := &saga.Effect[stay, string]{
		Name: "hold-room",
		Do: func(_ context.Context, key saga.Key, in stay) (string, error) {
			return "the room in " + in.City, rooms.hold(key)
		},
		Undo: func(_ context.Context, p saga.Performed[stay, string]) error {
			return rooms.release(p.Key)
		},
	}

	book := saga.Flow[none, string]{
		Info: saga.Info{
			Name:    "book_room",
			Asks:    []steps.Question{askCity, askConfirm},
			Effects: []saga.Declared{holdRoom},
		},
		Run: func(r *saga.Run, _ none) (string, error) {
			city, err := saga.Ask(r, askCity)
			if err != nil {
				return "", err
			}
			room, err := saga.Do(r, holdRoom, stay(city))
			if err != nil {
				return "", err
			}
			confirm, err := saga.Ask(r, askConfirm)
			if err != nil {
				return "", err
			}
			if !confirm.Sure {
				return "", saga.Failf("You did not want %s.", room)
			}
			return "You have " + room + ".", nil
		},
	}
	talk(book, nil, client.Accept(fields{"city": "Rome"}), client.Accept(fields{"sure": true}))
	fmt.Println()
	talk(book, nil, client.Accept(fields{"city": "Oslo"}), client.Decline())
	// Output:
	// city asks: Where do you want to stay?
	// desk: hold
	// confirm asks: A room is held for you. Do you take it?
	// result: You have the room in Rome.
	//
	// city asks: Where do you want to stay?
	// desk: hold
	// confirm asks: A room is held for you. Do you take it?
	// desk: release
	// error: Stopped: "confirm" was declined.
	// Undone: hold-room.
}

// Step machines have effects too. What Do returned is kept in the state if a later
// step function needs it; that it was done is kept by the engine.
func ExampleDo() {
	type none struct{}
	type state struct {
		Room string `json:"room"`
	}
	type turn = saga.Turn[none, state]
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	type cityForm struct {
		City string `json:"city"`
	}
	askCity := &steps.Form[cityForm]{ID: "city", Message: "Where do you want to stay?"}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "A room is held for you. Do you take it?"}

	rooms := desk{}
	holdRoom := &saga.Effect[string, string]{
		Name: "hold-room",
		Do: func(_ context.Context, key saga.Key, city string) (string, error) {
			return "the room in " + city, rooms.hold(key)
		},
		Undo: func(_ context.Context, p saga.Performed[string, string]) error { return rooms.release(p.Key) },
	}
	book := saga.Machine[none, state]{
		Info: saga.Info{
			Name:    "book_room",
			Asks:    []steps.Question{askCity, askConfirm},
			Effects: []saga.Declared{holdRoom},
		},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("chosen", askCity) },
		Steps: saga.Steps[none, state]{
			"chosen": func(t *turn) (saga.Next, error) {
				form, err := askCity.Answer(t)
				if err != nil {
					return nil, err
				}
				if t.State.Room, err = saga.Do(t, holdRoom, form.City); err != nil {
					return nil, err
				}
				return t.Ask("confirmed", askConfirm)
			},
			"confirmed": func(t *turn) (saga.Next, error) {
				if _, err := askConfirm.Answer(t); err != nil {
					return nil, err
				}
				return t.Textf("You have %s.", t.State.Room)
			},
		},
	}
	talk(book, nil, client.Accept(fields{"city": "Rome"}), client.Accept(fields{"sure": true}))
	fmt.Println()
	talk(book, nil, client.Accept(fields{"city": "Oslo"}), client.Cancel())
	// Output:
	// city asks: Where do you want to stay?
	// desk: hold
	// confirm asks: A room is held for you. Do you take it?
	// result: You have the room in Rome.
	//
	// city asks: Where do you want to stay?
	// desk: hold
	// confirm asks: A room is held for you. Do you take it?
	// desk: release
	// error: Stopped: "confirm" was cancelled.
	// Undone: hold-room.
}

// A turn that is repeated performs its effects again with the same keys. The
// system behind recognises them and does not act twice.
func ExampleKey() {
	type none struct{}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Shall I hold a room?"}
	rooms := desk{}
	calls := 0
	holdRoom := &saga.Effect[string, bool]{
		Name: "hold-room",
		Do: func(_ context.Context, key saga.Key, _ string) (bool, error) {
			calls++
			return true, rooms.hold(key)
		},
	}
	book := saga.Flow[none, string]{
		Info: saga.Info{Name: "book_room", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{holdRoom}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			_, err := saga.Do(r, holdRoom, "Rome")
			return "Held.", err
		},
	}
	s := begin(book, steps.AllFeatures(), `{}`)
	s.accept("confirm", `{"sure":true}`)
	s.accept("confirm", `{"sure":true}`) // the response was lost: the client sends the same again
	fmt.Println("calls of Do:", calls, "rooms held:", len(rooms))
	// Output:
	// asked: confirm
	// desk: hold
	// caller: Held.
	// caller: Held.
	// calls of Do: 2 rooms held: 1
}

// Refused says that nothing was done and that trying again would not help. Any
// other error leaves open what was done: Do is tried again, and if that does not
// help, Undo has to find out by the key.
func ExampleRefused() {
	type none struct{}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Shall I hold a room?"}
	fail := errors.New("connection reset")
	holdRoom := &saga.Effect[string, bool]{
		Name:  "hold-room",
		Tries: 2,
		Do: func(context.Context, saga.Key, string) (bool, error) {
			fmt.Println("desk is asked for a room")
			return false, fail
		},
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error {
			fmt.Println("desk is asked to release it; was it held for certain?", p.Known)
			return nil
		},
	}
	book := saga.Flow[none, string]{
		Info: saga.Info{Name: "book_room", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{holdRoom}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			_, err := saga.Do(r, holdRoom, "Rome")
			var failed *saga.EffectError
			switch {
			case errors.As(err, &failed) && failed.Unknown:
				return "", saga.Failf("The hotel does not answer.")
			case errors.As(err, &failed):
				return "", saga.Failf("The hotel says: %w.", failed.Err)
			}
			return "Held.", err
		},
	}
	talk(book, nil, client.Accept(fields{"sure": true}))
	fail = saga.Refused(errors.New("all rooms are taken"))
	talk(book, nil, client.Accept(fields{"sure": true}))
	// Output:
	// confirm asks: Shall I hold a room?
	// desk is asked for a room
	// desk is asked for a room
	// desk is asked to release it; was it held for certain? false
	// error: The hotel does not answer.
	// Undone: hold-room.
	// confirm asks: Shall I hold a room?
	// desk is asked for a room
	// error: The hotel says: all rooms are taken.
}

// After an irreversible effect the saga only goes forward: nothing is undone, and
// the caller reads so. Its Undo is called only while it is not known to be done:
// it says whether there is a way back.
func ExampleEffect_irreversible() {
	type none struct{}
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askRoom := &steps.Form[confirmForm]{ID: "room", Message: "Shall I hold a room?"}
	askPay := &steps.Form[confirmForm]{ID: "pay", Message: "Shall I pay?"}
	rooms := desk{}
	holdRoom := &saga.Effect[none, saga.Key]{
		Name: "hold-room",
		Do:   func(_ context.Context, key saga.Key, _ none) (saga.Key, error) { return key, rooms.hold(key) },
		Undo: func(_ context.Context, p saga.Performed[none, saga.Key]) error { return rooms.release(p.Key) },
	}
	pay := &saga.Effect[saga.Key, bool]{
		Name:         "pay",
		Irreversible: true,
		Do: func(_ context.Context, _ saga.Key, room saga.Key) (bool, error) {
			if rooms[room] == "released" {
				return false, saga.Refused(errors.New("the room was released"))
			}
			rooms[room] = "paid"
			return true, nil
		},
		// What comes first at the desk decides: a room that is released cannot be
		// paid, and one that is paid is not released.
		Undo: func(_ context.Context, p saga.Performed[saga.Key, bool]) error { return rooms.release(p.In) },
	}
	book := saga.Flow[none, string]{
		Info: saga.Info{Name: "book_room", Asks: []steps.Question{askRoom, askPay}, Effects: []saga.Declared{holdRoom, pay}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Ask(r, askRoom); err != nil {
				return "", err
			}
			room, err := saga.Do(r, holdRoom, none{})
			if err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askPay); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, room); err != nil {
				return "", err
			}
			return "", saga.Failf("The receipt could not be sent.")
		},
	}
	yes := client.Accept(fields{"sure": true})
	talk(book, nil, yes, yes)
	// Output:
	// room asks: Shall I hold a room?
	// desk: hold
	// pay asks: Shall I pay?
	// error: The receipt could not be sent.
	// Nothing was undone: "pay" is done and final.
}
