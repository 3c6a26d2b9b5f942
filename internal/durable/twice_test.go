package durable_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The request with which a saga becomes a task comes twice. Both get the task, wherever the one overtakes the other.
func TestARequestThatBecomesATaskComesTwice(t *testing.T) {
	d := newDesk()
	effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
	tool := saga.Flow[none, string]{
		Info: saga.Info{Name: "books", Asks: []steps.Question{nameForm}, Effects: []saga.Declared{effect}, Tasks: saga.Tasks{Mode: saga.TasksOptional, After: "name"}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, effect, hold{Task: "x", What: "a"}); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, nameForm)
			return "booked", err
		},
	}
	overtaken := true
	for at := 1; overtaken; at++ {
		inBubble(t, func(t *testing.T, r *rig) {
			var other func()
			calls := 0
			slow := &storetest.Intercept{Store: r.store, Around: func(_ context.Context, _ storetest.Call, next func() error) error {
				if calls++; other != nil && calls == at {
					other()
					other = nil
				}
				return next()
			}}
			m := r.manager(nil, tool)
			s := call(m, "books", "{}")
			s.Request.Policy = turns.Carried
			s.Request.Token = r.start(m, s).End.Token
			s.Request.Answers = []steps.Answer{accept("name", `{"name":"Ada"}`)}
			var first *tasks.Task
			other = func() { first = r.start(m, s) }
			second, err := r.manager(func(c *durable.Config) { c.Store = slow }, tool).Start(t.Context(), s)
			require.NoError(t, err, "before call %d of the store", at)
			if overtaken = first != nil; overtaken {
				assert.Equal(t, first.ID, second.ID)
			}
		})
	}
}
