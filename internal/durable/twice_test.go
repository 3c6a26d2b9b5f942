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

// becomesATask holds something and asks for a name; with that it is a task.
func becomesATask() saga.Definition {
	d := newDesk()
	effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "books", Asks: []steps.Question{nameForm}, Effects: []saga.Declared{effect}, Tasks: saga.Tasks{Mode: saga.TasksOptional, After: "name"}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, effect, hold{Task: "x", What: "a"}); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, nameForm)
			return "booked", err
		},
	}
}

// The request with which a saga becomes a task comes twice. Both get the task, wherever the one overtakes the other.
func TestARequestThatBecomesATaskComesTwice(t *testing.T) {
	tool := becomesATask()
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

// So it may from a client that takes tasks and one that takes none. Whoever comes first decides which it is; the other
// one gets the same response, or reads that there is a task.
func TestARequestThatBecomesATaskComesOnceWithoutTasks(t *testing.T) {
	answers := map[string]int{}
	for _, asTask := range []bool{true, false} { // the one that is overtaken
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
				tool := becomesATask()
				fast := r.manager(nil, tool)
				s := call(fast, "books", "{}")
				s.Request.Policy = turns.Carried
				s.Request.Token = r.start(fast, s).End.Token
				s.Request.Answers = []steps.Answer{accept("name", `{"name":"Ada"}`)}
				var task *tasks.Task
				var began, answered error
				var end turns.End
				starts := func(m *durable.Core) { task, began = m.Start(t.Context(), s) }
				resumes := func(m *durable.Core) { end, answered = m.Turns.Resume(t.Context(), s.Request) }
				first, second := starts, resumes
				if !asTask {
					first, second = resumes, starts
				}
				did := false
				other = func() { did = true; second(fast) }
				first(r.manager(func(c *durable.Config) { c.Store = slow }, tool))
				if overtaken = did; !did {
					return
				}
				require.NoError(t, began, "before call %d of the store", at)
				if task.ID != "" {
					answers["task"]++
					require.ErrorIs(t, answered, turns.ErrTask, "before call %d of the store", at)
					return
				}
				answers["turn"]++
				require.NoError(t, answered, "before call %d of the store", at)
				assert.Equal(t, end.Result.Content.Text(), task.End.Result.Content.Text())
			})
		}
	}
	assert.Positive(t, answers["turn"], answers)
	assert.Positive(t, answers["task"], answers)
}
