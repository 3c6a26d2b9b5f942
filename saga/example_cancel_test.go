package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// bookTrip asks, holds a room, asks, holds a flight, and asks.
func bookTrip(rooms, flights desk) saga.Flow[struct{}, string] {
	type confirmForm struct {
		Sure bool `json:"sure"`
	}
	ask := func(id, message string) *steps.Form[confirmForm] {
		return &steps.Form[confirmForm]{ID: id, Message: message}
	}
	askRoom, askFlight, askTake := ask("room", "Shall I hold a room?"), ask("flight", "And a flight?"), ask("take", "Do you take them?")
	hold := func(name string, d desk) *saga.Effect[bool, bool] {
		return &saga.Effect[bool, bool]{
			Name: name,
			Do:   func(_ context.Context, key saga.Key, _ bool) (bool, error) { return true, d.hold(key) },
			Undo: func(_ context.Context, p saga.Performed[bool, bool]) error { return d.release(p.Key) },
		}
	}
	holdRoom, holdFlight := hold("hold-room", rooms), hold("hold-flight", flights)
	return saga.Flow[struct{}, string]{
		Info: saga.Info{
			Name:    "book_trip",
			Asks:    []steps.Question{askRoom, askFlight, askTake},
			Effects: []saga.Declared{holdRoom, holdFlight},
			MaxAge:  time.Hour,
		},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Ask(r, askRoom); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, holdRoom, true); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askFlight); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, holdFlight, true); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askTake); err != nil {
				return "", err
			}
			return "Booked.", nil
		},
	}
}

// holdingRoom calls the tool and returns the token that it has when a room is held.
func holdingRoom(s *server.Server) string {
	call := request(s, "tools/callSaga", object{"name": "book_trip"})
	held := request(s, "tools/resumeSaga", object{
		"sagaToken":      call.Result.SagaToken,
		"completedSteps": []object{accepted("room", object{"sure": true})},
	})
	return held.Result.SagaToken
}

// A client that gives up sends the token to tools/cancelSaga.
func Example_cancelSaga() {
	s := serve(nil, bookTrip(desk{}, desk{}))
	token := holdingRoom(s)

	cancelled := request(s, "tools/cancelSaga", object{"sagaToken": token})
	cancelled.print()
	// Output:
	// desk: hold
	// desk: release
	// caller: Cancelled. If the saga went on from this token, what it did since then is not undone: cancel it with its latest token.
	// caller: Undone: hold-room.
	// report: {"undone":["hold-room"],"outstanding":[]}
}

// A client that has answered and got no response sends these answers again: the
// turn that was lost may have held a flight. It is found by its key, and undone.
func Example_cancelSagaAfterALostTurn() {
	s := serve(nil, bookTrip(desk{}, desk{}))
	token := holdingRoom(s)
	params := object{
		"sagaToken":      token,
		"completedSteps": []object{accepted("flight", object{"sure": true})},
	}
	request(s, "tools/resumeSaga", params) // its response does not arrive

	cancelled := request(s, "tools/cancelSaga", params)
	cancelled.print()
	// Output:
	// desk: hold
	// desk: hold
	// desk: release
	// desk: release
	// caller: Cancelled. If the saga went on after these answers, what it did since then is not undone: cancel it with its latest token.
	// caller: Undone: hold-flight, hold-room.
	// report: {"undone":["hold-flight","hold-room"],"outstanding":[]}
}

// The requestState of MCP 2026-07-28 can be cancelled too.
func Example_cancelRequestState() {
	s := serve(nil, bookTrip(desk{}, desk{}))
	call := object{"name": "book_trip"}
	asked := modern(s, "tools/call", call)
	call["requestState"] = asked.Result.RequestState
	call["inputResponses"] = object{"room": object{"action": "accept", "content": object{"sure": true}}}
	held := modern(s, "tools/call", call)

	cancelled := request(s, "tools/cancelSaga", object{"sagaToken": held.Result.RequestState})
	cancelled.print()
	// Output:
	// desk: hold
	// desk: release
	// caller: Cancelled. If the saga went on from this token, what it did since then is not undone: cancel it with its latest token.
	// caller: Undone: hold-room.
	// report: {"undone":["hold-room"],"outstanding":[]}
}

// A client that comes back too late is told so, and what the saga did is undone.
func Example_tooLate() {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	s := serve(func() time.Time { return now }, bookTrip(desk{}, desk{}))
	token := holdingRoom(s)

	now = now.Add(3 * time.Hour)
	late := request(s, "tools/resumeSaga", object{
		"sagaToken":      token,
		"completedSteps": []object{accepted("flight", object{"sure": true})},
	})
	late.print()
	// Output:
	// desk: hold
	// desk: release
	// caller: The saga came back too late and has ended.
	// caller: Undone: hold-room.
	// report: {"undone":["hold-room"],"outstanding":[]}
}

// A token can be used again after the saga has ended, also to cancel. So an undo
// has to be refused by the system behind once what was done is final.
func Example_replayedToken() {
	rooms := desk{}
	s := serve(nil, bookTrip(rooms, desk{}))
	token := holdingRoom(s)
	for key := range rooms {
		rooms[key] = "paid" // by a saga that went on from the same token
	}

	cancelled := request(s, "tools/cancelSaga", object{"sagaToken": token})
	cancelled.print()
	for _, state := range rooms {
		fmt.Println("the room is still", state)
	}
	// Output:
	// desk: hold
	// caller: Not cancelled: it is too late.
	// caller: Nothing was undone: "hold-room" is done and final.
	// report: {"undone":[],"outstanding":[],"final":"hold-room"}
	// the room is still paid
}

// An undo that fails does not keep the others from being undone. The report says
// what is outstanding, and has a token with which only that is tried again.
func Example_undoReport() {
	room := desk{}
	flights := desk{}
	trip := bookTrip(room, flights)
	down := true
	trip.Effects[1].(*saga.Effect[bool, bool]).Tries = 1
	release := trip.Effects[1].(*saga.Effect[bool, bool]).Undo
	trip.Effects[1].(*saga.Effect[bool, bool]).Undo = func(ctx context.Context, p saga.Performed[bool, bool]) error {
		if down {
			return errors.New("the airline does not answer")
		}
		return release(ctx, p)
	}
	s := serve(nil, trip)
	params := object{
		"sagaToken":      holdingRoom(s),
		"completedSteps": []object{accepted("flight", object{"sure": true})},
	}
	cancelled := request(s, "tools/cancelSaga", params)
	for _, c := range cancelled.Result.Content {
		fmt.Println("caller:", c.Text)
	}
	var report struct{ SagaToken string }
	if err := json.Unmarshal(cancelled.Result.Meta.Undo, &report); err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println("later:")
	down = false
	request(s, "tools/cancelSaga", object{"sagaToken": report.SagaToken}).print()
	// Output:
	// desk: hold
	// desk: hold
	// desk: release
	// caller: Cancelled. If the saga went on after these answers, what it did since then is not undone: cancel it with its latest token.
	// caller: Undone: hold-room.
	// Not undone: hold-flight. This can be tried again.
	// later:
	// desk: release
	// caller: Cancelled.
	// caller: Undone: hold-flight.
	// report: {"undone":["hold-flight"],"outstanding":[]}
}

// From Go, a call that was put aside is cancelled with its position.
func Example_cancelFromGo() {
	hs := httptest.NewServer(serve(nil, bookTrip(desk{}, desk{})).Handler())
	defer hs.Close()
	c := client.New(&client.HTTP{URL: hs.URL + server.Endpoint}, client.Options{})
	defer c.Close()
	ctx := context.Background()

	_, err := c.Call(ctx, "book_trip", nil, client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			if r.StepID == "room" {
				return client.Accept(fields{"sure": true}), nil
			}
			return nil, client.ErrPause // the user is not there any more
		},
	})
	var stopped *client.InterruptedError
	if !errors.As(err, &stopped) {
		fmt.Println(err)
		return
	}
	result, err := c.Cancel(ctx, stopped.Position)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content.Text())
	// Output:
	// desk: hold
	// desk: release
	// Cancelled. If the saga went on from this token, what it did since then is not undone: cancel it with its latest token.
	// Undone: hold-room.
}
