package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// agency is a world that behaves: it knows keys, refuses what can no longer be, and
// what is paid cannot be released.
type agency struct {
	mu    sync.Mutex
	holds map[saga.Key]*holding
	order []saga.Key
}

type holding struct {
	What     string `json:"what"`
	Released bool   `json:"released,omitempty"`
	Paid     bool   `json:"paid,omitempty"`
}

func newAgency() *agency { return &agency{holds: map[saga.Key]*holding{}} }

// standing lists what is held or paid.
func (a *agency) standing() any {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []string{}
	for _, k := range a.order {
		switch h := a.holds[k]; {
		case h.Paid:
			list = append(list, h.What+" paid")
		case !h.Released:
			list = append(list, h.What+" held")
		}
	}
	return list
}

func (a *agency) hold(key saga.Key, what string) (saga.Key, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch h := a.holds[key]; {
	case h == nil:
		a.holds[key] = &holding{What: what}
		a.order = append(a.order, key)
	case h.Released:
		return "", saga.Refused(errors.New("was released"))
	case h.What != what:
		return "", saga.Refused(errors.New("the key is taken"))
	}
	return key, nil
}

func (a *agency) release(key saga.Key) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.holds[key]
	switch {
	case h == nil:
		h = &holding{What: "nothing"}
		a.holds[key] = h // so that a hold that comes late is refused
	case h.Paid:
		return errors.New("is paid")
	}
	h.Released = true
	return nil
}

func (a *agency) pay(keys []saga.Key) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range keys {
		if h := a.holds[k]; h == nil || h.Released {
			return saga.Refused(fmt.Errorf("%s is not held", k))
		}
	}
	for _, k := range keys {
		a.holds[k].Paid = true
	}
	return nil
}

// holdEffect holds something at the agency.
func (a *agency) holdEffect(name string) *saga.Effect[string, saga.Key] {
	return &saga.Effect[string, saga.Key]{
		Name: name,
		Do: func(_ context.Context, key saga.Key, what string) (saga.Key, error) {
			return a.hold(key, what)
		},
		Undo: func(_ context.Context, p saga.Performed[string, saga.Key]) error { return a.release(p.Key) },
	}
}

func (a *agency) payEffect() *saga.Effect[[]saga.Key, bool] {
	return &saga.Effect[[]saga.Key, bool]{
		Name: "pay", Irreversible: true,
		Do: func(_ context.Context, _ saga.Key, keys []saga.Key) (bool, error) { return true, a.pay(keys) },
	}
}

type tripArgs struct {
	From string `json:"from"`
}

type datesForm struct {
	Day string `json:"day" format:"date"`
}

type cityForm struct {
	City string `json:"city" enum:"rome=Rome|oslo=Oslo"`
}

type sureForm struct {
	Sure bool `json:"sure"`
}

var (
	askDay  = &steps.Form[datesForm]{ID: "day", Message: "When?"}
	askCity = &steps.Form[cityForm]{ID: "city", Message: "Where to?"}
	askSure = &steps.Form[sureForm]{ID: "sure", Message: "Shall I book?"}
	askWish = &steps.Sample{ID: "wish", Request: steps.SampleRequest{MaxTokens: 10}}
)

var script = []answer{
	accept("day", datesForm{"2026-12-24"}), accept("city", cityForm{"rome"}), say("wish", "a window"), accept("sure", sureForm{true}),
}

// booking is a flow that holds a room and a seat and pays them.
func booking(a *agency) saga.Flow[tripArgs, string] {
	room, seat, pay := a.holdEffect("room"), a.holdEffect("seat"), a.payEffect()
	return saga.Flow[tripArgs, string]{
		Info: saga.Info{Name: "book", Asks: []steps.Question{askDay, askCity, askSure, askWish}, Effects: []saga.Declared{room, seat, pay}},
		Run: func(r *saga.Run, in tripArgs) (string, error) {
			if err := r.AskAll(askDay, askCity); err != nil {
				return "", err
			}
			day, err := askDay.Answer(r)
			if err != nil {
				return "", err
			}
			city, err := askCity.Answer(r)
			if err != nil {
				return "", err
			}
			roomKey, err := saga.Do(r, room, "room in "+city.City)
			if err != nil {
				return "", err
			}
			wish, err := saga.Ask(r, askWish.With(steps.Promptf("Which seat to %s?", city.City)))
			if err != nil {
				return "", err
			}
			seatKey, err := saga.Do(r, seat, "seat at "+wish.Text())
			if err != nil {
				return "", err
			}
			sure, err := saga.Ask(r, askSure.With(steps.Message(fmt.Sprintf("Shall I book %s on %s?", city.City, day.Day))))
			if err != nil {
				return "", err
			}
			if !sure.Sure {
				return "", saga.Failf("You were not sure.")
			}
			if _, err := saga.Do(r, pay, []saga.Key{roomKey, seatKey}); err != nil {
				return "", err
			}
			return fmt.Sprintf("Booked: %s to %s on %s.", in.From, city.City, day.Day), nil
		},
	}
}

type bookState struct {
	City, Day string
	Keys      []saga.Key
	Code      saga.Secret
}

type bookTurn = saga.Turn[tripArgs, bookState]

// bookingMachine is booking as a machine.
func bookingMachine(a *agency) saga.Machine[tripArgs, bookState] {
	room, seat, pay := a.holdEffect("room"), a.holdEffect("seat"), a.payEffect()
	held := func(t *bookTurn, e *saga.Effect[string, saga.Key], what string) error {
		key, err := saga.Do(t, e, what)
		t.State.Keys = append(slices.Clip(t.State.Keys), key)
		return err
	}
	return saga.Machine[tripArgs, bookState]{
		Info: saga.Info{Name: "book_machine", Asks: []steps.Question{askDay, askCity, askSure, askWish}, Effects: []saga.Declared{room, seat, pay}},
		Start: func(t *bookTurn) (saga.Next, error) {
			t.State.Code = saga.NewSecret("xyzzy-plugh")
			return t.Ask("where", askDay, askCity)
		},
		Steps: saga.Steps[tripArgs, bookState]{
			"where": func(t *bookTurn) (saga.Next, error) {
				day, err := askDay.Answer(t)
				if err != nil {
					return nil, err
				}
				city, err := askCity.Answer(t)
				if err != nil {
					return nil, err
				}
				t.State.Day, t.State.City = day.Day, city.City
				if err := held(t, room, "room in "+city.City); err != nil {
					return nil, err
				}
				return t.Ask("wished", askWish.With(steps.Promptf("Which seat to %s?", city.City)))
			},
			"wished": func(t *bookTurn) (saga.Next, error) {
				wish, err := askWish.Answer(t)
				if err != nil {
					return nil, err
				}
				if err := held(t, seat, "seat at "+wish.Text()); err != nil {
					return nil, err
				}
				return t.Ask("sure", askSure)
			},
			"sure": func(t *bookTurn) (saga.Next, error) {
				sure, err := askSure.Answer(t)
				if err != nil {
					return nil, err
				}
				if !sure.Sure {
					return nil, saga.Failf("You were not sure.")
				}
				if _, err := saga.Do(t, pay, t.State.Keys); err != nil {
					return nil, err
				}
				return t.Textf("Booked: %s to %s on %s.", t.Args.From, t.State.City, t.State.Day)
			},
		},
	}
}
