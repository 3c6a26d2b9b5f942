// Package events waits for events, as it should and as it should not.
package events

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type payment struct{ Cents int }

var (
	paid      = &steps.Event[payment]{ID: "paid", Message: "Waiting for the payment.", Within: time.Hour}
	shipped   = &steps.Event[payment]{ID: "shipped", Message: "Waiting for the parcel.", Within: time.Hour}
	forgotten = &steps.Event[payment]{ID: "forgotten", Message: "Waiting for nothing.", Within: time.Hour}
	lonely    = &steps.Event[payment]{ID: "lonely", Message: "Waiting alone.", Within: time.Hour}
	spoken    = &steps.Event[payment]{ID: "spoken", Message: "Waiting in vain.", Within: time.Hour}
	handed    = &steps.Event[payment]{ID: "handed", Message: "Waiting for who knows what.", Within: time.Hour}

	// Others may give its handle away.
	Shown = &steps.Event[payment]{ID: "shown", Message: "Waiting.", Within: time.Hour}
)

var order = &saga.Effect[string, string]{Name: "order", Do: func(_ context.Context, _ saga.Key, to string) (string, error) { return to, nil }}

var flow = saga.Flow[struct{}, string]{
	Info: saga.Info{Name: "flow", Asks: []steps.Question{paid, shipped, forgotten, lonely, spoken, handed, Shown}, Effects: []saga.Declared{order}},
	Run: func(r *saga.Run, _ struct{}) (string, error) {
		to, err := saga.Handle(r, paid)
		if err != nil {
			return "", err
		}
		lost, err := saga.Handle(r, forgotten) // want `nothing asks for this event, so what is delivered to its handle is lost. Ask for it with saga.Ask, or in a Machine with t.Ask`
		if err != nil {
			return "", err
		}
		own := &saga.Effect[string, string]{Name: "own", Do: func(context.Context, saga.Key, string) (string, error) {
			return saga.Handle(r, paid) // want `an effect takes this handle, so it is not in the record of its input, and Undo does not get it. Take it before saga.Do, and hand it to the effect as input`
		}}
		if _, err := saga.Do(r, own, ""); err != nil {
			return "", err
		}
		if _, err := saga.Do(r, order, to+lost); err != nil {
			return "", err
		}
		if err := r.AskAll(paid.With(steps.Message("Pay.")), shipped.With(steps.Key("17")), Shown); err != nil {
			return "", err
		}
		if _, err := saga.Ask(r, spoken.With(steps.Message("Who?"))); err != nil { // want `this event cannot be delivered`
			return "", err
		}
		_, err = saga.Ask(r, lonely) // want `this event cannot be delivered, as it has neither a handle nor a steps.Key: it can only time out. Give saga.Handle of it to an effect first, or ask for it With a steps.Key`
		return "", err
	},
}

// elsewhere asks, or gives the handle away.
var elsewhere = []any{handed}

var machine = saga.Machine[struct{}, struct{}]{
	Info:  saga.Info{Name: "machine", Asks: []steps.Question{}},
	Start: func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) { return wait(t) },
}

func wait(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) {
	first := &steps.Event[payment]{ID: "first", Message: "Waiting.", Within: time.Hour}
	second := &steps.Event[payment]{ID: "second", Message: "Waiting.", Within: time.Hour}
	third := &steps.Event[payment]{ID: "third", Message: "Waiting.", Within: time.Hour}
	if _, err := saga.Handle(t, first.Nth(1)); err != nil {
		return nil, err
	}
	if _, err := third.Answer(t); err != nil { // want `this event cannot be delivered`
		return nil, err
	}
	fourth := &steps.Event[payment]{ID: "fourth", Message: "Waiting.", Within: time.Hour}
	if _, err := (fourth.Answer)(t); err != nil { // want `this event cannot be delivered`
		return nil, err
	}
	return t.Ask("next", first.Nth(1), second) // want `this event cannot be delivered`
}
