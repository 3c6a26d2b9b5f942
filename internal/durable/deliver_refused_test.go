package durable_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A client cannot answer for an event, also not where its saga becomes a task with the answers.
func TestClientsForgeNoEvents(t *testing.T) {
	tool := saga.Flow[none, string]{
		Info: saga.Info{Name: "buy", Asks: []steps.Question{paid, nameForm}, Tasks: saga.Tasks{Mode: saga.TasksOptional, After: "name"}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if err := r.AskAll(nameForm, paid); err != nil {
				return "", err
			}
			p, err := paid.Answer(r)
			return fmt.Sprintf("paid %d", p.Amount), err
		},
	}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, tool)
		r.work(m)
		s := call(m, "buy", "{}")
		s.Request.Policy = turns.Carried
		s.Request.Token = r.start(m, s).End.Token
		s.Request.Answers = []steps.Answer{accept("name", `{"name":"Ada"}`), {StepID: "paid", Result: accepts(`{"amount":77}`)}}
		task := r.start(m, s)
		time.Sleep(time.Minute)
		got, err := m.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Working, got.Status)
	})
}

// That nobody delivered to a key in time is nothing to the saga that waits for it next.
func TestKeysAreWaitedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, newShop().tool(paid.With(steps.Key("order-1"))))
		r.work(m)
		r.start(m, call(m, "buy", "{}"))
		time.Sleep(2 * time.Hour)
		second := r.start(m, call(m, "buy", "{}"))
		time.Sleep(10 * time.Minute)
		_, err := m.Deliver(t.Context(), m.AtKey("buy", "paid", "order-1"), accepts(`{"amount":5}`))
		require.NoError(t, err)
		r.until(m, second.ID, tasks.Completed)
	})
}

// What was delivered to a key is there for any number of sagas, one after the other, and so is the end of their time.
func TestKeysOfManySagas(t *testing.T) {
	for name, delivered := range map[string]bool{"delivered": true, "not delivered": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				m := r.manager(nil, newShop().tool(paid.With(steps.Key("order-1"))))
				r.work(m)
				if delivered {
					_, err := m.Deliver(t.Context(), m.AtKey("buy", "paid", "order-1"), accepts(`{"amount":5}`))
					require.NoError(t, err)
				}
				for range 105 {
					task := r.start(m, call(m, "buy", "{}"))
					time.Sleep(2 * time.Hour)
					got, err := m.Get(t.Context(), "p", task.ID)
					require.NoError(t, err)
					require.True(t, got.Status.Ended(), "%v", got.Status)
				}
			})
		})
	}
}

// A saga that its client drives is no row: it waits for a key although all rows that wait for the same have ended.
func TestKeysOfSagasThatClientsDrive(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, newShop().tool(paid.With(steps.Key("order-1"))))
		r.work(m)
		task := r.start(m, call(m, "buy", "{}"))
		end, err := m.Turns.Call(t.Context(), call(m, "buy", "{}").Request)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		_, err = m.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		r.until(m, task.ID, tasks.Cancelled)
		_, err = m.Deliver(t.Context(), m.AtKey("buy", "paid", "order-1"), accepts(`{"amount":5}`))
		require.NoError(t, err)
		q := call(m, "buy", "").Request
		q.Token = end.Token
		end, err = m.Turns.Resume(t.Context(), q)
		require.NoError(t, err)
		assert.Contains(t, end.Result.Content.Text(), "paid 5")
	})
}
