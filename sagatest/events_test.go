package sagatest_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

type payment struct {
	Amount int `json:"amount" minimum:"1"`
}

// counter is what the tool acts on.
type counter struct {
	mu              sync.Mutex
	Reserved, Asked map[saga.Key]string
}

// effect keeps its input under the key.
func (c *counter) effect(name string, in map[saga.Key]string) *saga.Effect[string, string] {
	return &saga.Effect[string, string]{Name: name,
		Do: func(_ context.Context, k saga.Key, what string) (string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			in[k] = what
			return what, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, string]) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(in, p.Key)
			return nil
		},
	}
}

var (
	sure = &steps.Form[struct{}]{ID: "sure", Message: "Buy it?"}
	paid = &steps.Event[payment]{ID: "paid", Message: "Waiting for the payment.", Within: time.Hour}
)

// newCounter returns a tool that waits for a payment, and what it acts on.
func newCounter(mode saga.Tasks) sagatest.Subject {
	c := &counter{Reserved: map[saga.Key]string{}, Asked: map[saga.Key]string{}}
	reserve, ask := c.effect("reserve", c.Reserved), c.effect("ask", c.Asked)
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "buy", Asks: []steps.Question{sure, paid}, Effects: []saga.Declared{reserve, ask}, Tasks: mode},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Ask(r, sure); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, reserve, "a chair"); err != nil {
				return "", err
			}
			handle, err := saga.Handle(r, paid)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, ask, handle); err != nil {
				return "", err
			}
			p, err := saga.Ask(r, paid)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("paid %d", p.Amount), nil
		},
	}
	return sagatest.Subject{Tool: tool, World: func() any {
		c.mu.Lock()
		defer c.mu.Unlock()
		return []any{maps.Clone(c.Reserved), maps.Clone(c.Asked)}
	}}
}

// An event is played like an answer: in time, too late, or rejected.
func TestPlayOfEvents(t *testing.T) {
	five := sagatest.Accept("paid", payment{5})
	for name, test := range map[string]struct {
		answer sagatest.Answer
		good   bool
		says   string
	}{
		"in time": {five, true, "paid 5"}, "later": {five.Later(50 * time.Minute), true, "paid 5"},
		"too late": {five.Later(2 * time.Hour), false, "has not happened in time"}, "rejected": {sagatest.Decline("paid"), false, "declined"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, resends := range []bool{true, false} {
				played := sagatest.Player{Resends: resends}.Play(t, newCounter(saga.Tasks{}).Tool, nil, sagatest.Accept("sure", struct{}{}), test.answer)
				assert.Equal(t, test.good, played.Good())
				assert.Contains(t, played.Text(), test.says)
			}
		})
	}
}

func TestSweepOfEvents(t *testing.T) {
	for name, mode := range map[string]saga.TaskMode{"no tasks": saga.TasksForbidden, "tasks": saga.TasksOptional, "only tasks": saga.TasksRequired} {
		t.Run(name, func(t *testing.T) {
			sagatest.Sweep(t, sagatest.Case{
				New:    func(testing.TB) sagatest.Subject { return newCounter(saga.Tasks{Mode: mode}) },
				Script: []sagatest.Answer{sagatest.Accept("sure", struct{}{}), sagatest.Accept("paid", payment{5})},
			})
		})
	}
}

// An event without a key is delivered to its handle, which an effect has to get as its input.
func TestSweepFindsEventsThatCannotBeDelivered(t *testing.T) {
	for name, test := range map[string]struct {
		tells func(r *saga.Run, tell *saga.Effect[string, string]) error
		event steps.Request
		found bool
	}{
		"no handle": {nil, paid, true},
		"a key":     {nil, paid.With(steps.Key("17")), false},
		"within an address": {func(r *saga.Run, tell *saga.Effect[string, string]) error {
			handle, err := saga.Handle(r, paid)
			if err == nil {
				_, err = saga.Do(r, tell, "https://shop.example.com/?to="+handle)
			}
			return err
		}, paid, false},
		"the handle is forgotten": {func(r *saga.Run, tell *saga.Effect[string, string]) error {
			_, err := saga.Handle(r, paid)
			if err == nil {
				_, err = saga.Do(r, tell, "pay!")
			}
			return err
		}, paid, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := sagatest.Case{
				New: func(testing.TB) sagatest.Subject {
					c := &counter{Asked: map[saga.Key]string{}}
					tell := c.effect("tell", c.Asked)
					return sagatest.Subject{Tool: saga.Flow[struct{}, string]{
						Info: saga.Info{Name: "buy", Asks: []steps.Question{sure, paid}, Effects: []saga.Declared{tell}},
						Run: func(r *saga.Run, _ struct{}) (string, error) {
							if _, err := saga.Ask(r, sure); err != nil {
								return "", err
							}
							if test.tells != nil {
								if err := test.tells(r, tell); err != nil {
									return "", err
								}
							}
							return "paid", r.AskAll(test.event)
						},
					}}
				},
				Script: []sagatest.Answer{sagatest.Accept("sure", struct{}{}), sagatest.Accept("paid", payment{5})},
			}
			f := reported(t, func(t testing.TB) { sagatest.Sweep(t, c) })
			if !test.found {
				assert.Empty(t, f.errors)
			} else if assert.Len(t, f.errors, 1) {
				assert.Contains(t, f.errors[0], "broken rule: an event can be delivered\n  scenario: who delivers paid\n")
				assert.Contains(t, f.errors[0], "take its saga.Handle before saga.Do")
			}
		})
	}
}
