package saga_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// bookRoom holds a room, asks, and holds a flight.
func bookRoom(rooms, flights desk) saga.Flow[struct{}, string] {
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	askFlight := &steps.Form[confirmForm]{ID: "flight", Message: "A room is held. A flight too?"}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Both are held. Do you take them?"}
	hold := func(name string, d desk) *saga.Effect[bool, bool] {
		return &saga.Effect[bool, bool]{
			Name: name,
			Do:   func(_ context.Context, key saga.Key, _ bool) (bool, error) { return true, d.hold(key) },
			Undo: func(_ context.Context, key saga.Key, _, _, _ bool) error { return d.release(key) },
		}
	}
	holdRoom, holdFlight := hold("hold-room", rooms), hold("hold-flight", flights)
	return saga.Flow[struct{}, string]{
		Name:    "book_room",
		Asks:    []steps.Question{askFlight, askConfirm},
		Effects: []saga.Declared{holdRoom, holdFlight},
		MaxAge:  time.Hour,
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, holdRoom, true); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askFlight); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, holdFlight, true); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			return "Booked.", nil
		},
	}
}

// A client that gives up sends the token to tools/cancelSaga.
func Example_cancelSaga() {
	s := serve(nil, bookRoom(desk{}, desk{}))
	call := request(s, "tools/callSaga", object{"name": "book_room"})

	cancelled := request(s, "tools/cancelSaga", object{"sagaToken": call.Result.SagaToken})
	cancelled.print()
	// Output:
	// desk: holds a room
	// desk: releases the room
	// caller: Cancelled.
	// caller: Undone: hold-room.
	// report: {"undone":["hold-room"],"outstanding":[]}
}

// A client that has answered and got no response sends these answers again: the
// turn that was lost may have held a flight. It is found by its key, and undone.
func Example_cancelSagaAfterALostTurn() {
	s := serve(nil, bookRoom(desk{}, desk{}))
	call := request(s, "tools/callSaga", object{"name": "book_room"})
	params := object{
		"sagaToken":      call.Result.SagaToken,
		"completedSteps": []object{accepted("flight", object{"sure": true})},
	}
	request(s, "tools/resumeSaga", params) // its response does not arrive

	cancelled := request(s, "tools/cancelSaga", params)
	cancelled.print()
	// Output:
	// desk: holds a room
	// desk: holds a room
	// desk: releases the room
	// desk: releases the room
	// caller: Cancelled.
	// caller: Undone: hold-flight, hold-room.
	// report: {"undone":["hold-flight","hold-room"],"outstanding":[]}
}

// The requestState of MCP 2026-07-28 can be cancelled too.
func Example_cancelRequestState() {
	s := serve(nil, bookRoom(desk{}, desk{}))
	call := modern(s, "tools/call", object{"name": "book_room"})

	cancelled := request(s, "tools/cancelSaga", object{"sagaToken": call.Result.RequestState})
	cancelled.print()
	// Output:
	// desk: holds a room
	// desk: releases the room
	// caller: Cancelled.
	// caller: Undone: hold-room.
	// report: {"undone":["hold-room"],"outstanding":[]}
}

// A client that comes back too late is told so, and what the saga did is undone.
func Example_tooLate() {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	s := serve(func() time.Time { return now }, bookRoom(desk{}, desk{}))
	call := request(s, "tools/callSaga", object{"name": "book_room"})

	now = now.Add(3 * time.Hour)
	late := request(s, "tools/resumeSaga", object{
		"sagaToken":      call.Result.SagaToken,
		"completedSteps": []object{accepted("flight", object{"sure": true})},
	})
	late.print()
	// Output:
	// desk: holds a room
	// desk: releases the room
	// caller: The saga came back too late and has ended.
	// caller: Undone: hold-room.
	// report: {"undone":["hold-room"],"outstanding":[]}
}

// A token can be used again after the saga has ended, also to cancel. So an undo
// has to be refused by the system behind once what was done is final.
func Example_replayedToken() {
	rooms := desk{}
	s := serve(nil, bookRoom(rooms, desk{}))
	call := request(s, "tools/callSaga", object{"name": "book_room"})
	for key := range rooms {
		rooms[key] = "paid" // by a saga that went on from the same token
	}

	cancelled := request(s, "tools/cancelSaga", object{"sagaToken": call.Result.SagaToken})
	fmt.Println("caller:", cancelled.Result.Content[1].Text)
	for _, state := range rooms {
		fmt.Println("the room is still", state)
	}
	// Output:
	// desk: holds a room
	// caller: Not undone: hold-room. Cancel the saga again to try once more.
	// the room is still paid
}
