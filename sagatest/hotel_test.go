package sagatest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// hotel is a world with one effect, and each test breaks something of it.
type hotel struct {
	held []string
	room *saga.Effect[string, int]
}

func newHotel() *hotel {
	h := &hotel{held: []string{}}
	rooms := map[saga.Key]int{}
	h.room = &saga.Effect[string, int]{
		Name: "hold-room",
		Do: func(_ context.Context, key saga.Key, what string) (int, error) {
			if rooms[key] == 0 {
				h.held = append(h.held, what)
				rooms[key] = len(h.held)
			}
			return rooms[key], nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, int]) error {
			if rooms[p.Key] != 0 {
				delete(rooms, p.Key)
				h.held = h.held[:len(h.held)-1]
			}
			return nil
		},
	}
	return h
}

// visit asks, holds a room, asks again, and ends.
func (h *hotel) visit(run func(r *saga.Run) (string, error)) saga.Flow[struct{}, string] {
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "visit", Asks: []steps.Question{askCity, askSure}, Effects: []saga.Declared{h.room}},
		Run:  func(r *saga.Run, _ struct{}) (string, error) { return run(r) },
	}
}

func (h *hotel) correctly(r *saga.Run) (string, error) {
	city, err := saga.Ask(r, askCity)
	if err != nil {
		return "", err
	}
	if _, err := saga.Do(r, h.room, "room in "+city.City); err != nil {
		return "", err
	}
	if _, err := saga.Ask(r, askSure); err != nil {
		return "", err
	}
	return "Enjoy your stay.", nil
}

// orElse holds another room if one cannot be held and goesOn says so of the failure.
func (h *hotel) orElse(r *saga.Run, goesOn func(*saga.EffectError) bool) (string, error) {
	if _, err := saga.Ask(r, askCity); err != nil {
		return "", err
	}
	_, err := saga.Do(r, h.room, "a room")
	if failed, ok := errors.AsType[*saga.EffectError](err); ok && goesOn(failed) {
		_, err = saga.Do(r, h.room, "another room")
	}
	if err != nil {
		return "", err
	}
	_, err = saga.Ask(r, askSure)
	return "Enjoy your stay.", err
}

func visitCase(blind bool, tool func(h *hotel) saga.Definition) sagatest.Case {
	return sagatest.Case{
		New: func(testing.TB) sagatest.Subject {
			h := newHotel()
			s := sagatest.Subject{Tool: tool(h)}
			if !blind {
				s.World = func() any { return h.held }
			}
			return s
		},
		Script: []answer{accept("city", cityForm{"rome"}), accept("sure", sureForm{true})},
		// A visit has no end that checks, so it cannot bear forks.
		Skip: []string{"forks"},
	}
}

func TestCorrectVisit(t *testing.T) {
	for _, blind := range []bool{false, true} {
		sagatest.Sweep(t, visitCase(blind, func(h *hotel) saga.Definition { return h.visit(h.correctly) }))
	}
	sagatest.Sweep(t, visitCase(false, func(h *hotel) saga.Definition {
		return h.visit(func(r *saga.Run) (string, error) {
			return h.orElse(r, func(failed *saga.EffectError) bool { return !failed.Unknown })
		})
	}))
	t.Run("with a ledger", func(t *testing.T) { // it undoes what is abandoned, so the tool may act first
		sagatest.Sweep(t, visitCase(false, func(h *hotel) saga.Definition {
			tool := h.visit(func(r *saga.Run) (string, error) {
				if _, err := saga.Do(r, h.room, "a room"); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, askCity)
				if err == nil {
					_, err = saga.Ask(r, askSure)
				}
				return "Enjoy your stay.", err
			})
			tool.SingleUse = saga.SingleUseRequired
			return tool
		}))
	})
}
