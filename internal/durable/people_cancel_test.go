package durable_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Who cancels with an old token a saga that goes on as a task takes back nothing that the task asks others.
func TestCancelsWithOldTokensLeaveWhatTasksAsk(t *testing.T) {
	pay := &saga.Effect[none, none]{Name: "pay", Irreversible: true, Do: func(context.Context, saga.Key, none) (none, error) { return none{}, nil }}
	for name, effects := range map[string][]saga.Declared{"too late": {pay}, "not remembered": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				m := r.manager(nil, saga.Flow[none, string]{
					Info: saga.Info{Name: "buy", Tasks: optional, Asks: []steps.Question{nameForm, approve}, Effects: effects},
					Run: func(r *saga.Run, _ none) (string, error) {
						if effects != nil {
							if _, err := saga.Do(r, pay, none{}); err != nil {
								return "", err
							}
						}
						if err := r.AskAll(nameForm, approve); err != nil {
							return "", err
						}
						_, err := approve.Answer(r)
						return "done", err
					},
				})
				r.work(m)
				q, s := call(m, "buy", "{}").Request, call(m, "buy", "")
				first, err := m.Turns.Call(t.Context(), q)
				require.NoError(t, err)
				s.Request.Token, s.AtOnce = first.Token, true
				s.Request.Answers = []steps.Answer{accept(first.Steps[0].ID, `{"name":"Ada"}`)}
				task := r.start(m, s)
				time.Sleep(time.Second)
				waiting := waitingFor(t, m, "finance")
				require.Len(t, waiting, 1)
				q.Token = first.Token
				_, err = m.Turns.Cancel(t.Context(), q)
				require.NoError(t, err)
				time.Sleep(time.Minute)
				assert.Equal(t, waiting, waitingFor(t, m, "finance"))
				require.NoError(t, answersAs(m, waiting[0], "jo", 1))
				assert.Contains(t, text(t, r.until(m, task.ID, tasks.Completed)), "done")
			})
		})
	}
}

// A saga whose turns are not remembered has a branch for each token: to cancel one takes back nothing that another asks in
// other words.
func TestCancelsWithOldTokensLeaveOtherWords(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, saga.Flow[none, string]{
			Info: saga.Info{Name: "buy", Asks: []steps.Question{approve}},
			Run: func(r *saga.Run, _ none) (string, error) {
				if _, err := saga.Ask(r, approve.With(steps.Message("Pay 1?"))); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, approve.With(steps.Message("Pay 1000?")))
				return "done", err
			},
		})
		q := call(m, "buy", "{}").Request
		first, err := m.Turns.Call(t.Context(), q)
		require.NoError(t, err)
		name := waitingFor(t, m, "finance")[0]
		require.NoError(t, answersAs(m, name, "jo", 1))
		q.Token = first.Token
		_, err = m.Turns.Resume(t.Context(), q)
		require.NoError(t, err)
		require.Contains(t, words(t, m, name), "Pay 1000?")
		_, err = m.Turns.Cancel(t.Context(), q)
		require.NoError(t, err)
		assert.Contains(t, words(t, m, name), "Pay 1000?")
	})
}
