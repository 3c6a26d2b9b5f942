package durable_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// paysTwice is a tool that asks others for 1, and then in other words for 1000, with a form for its client between if it has one.
// It notes what it pays.
func paysTwice(paid *[]int, between ...steps.Question) saga.Definition {
	pay := &saga.Effect[int, none]{Name: "pay", Do: func(_ context.Context, _ saga.Key, sum int) (none, error) {
		*paid = append(*paid, sum)
		return none{}, nil
	}}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "buy", Tasks: optional, Asks: append(between, approve), Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, _ none) (string, error) {
			for _, sum := range []int{1, 1000} {
				if _, err := saga.Ask(r, approve.With(steps.Message(fmt.Sprintf("Pay %d?", sum)))); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, pay, sum); err != nil {
					return "", err
				}
				for _, q := range between {
					if err := r.AskAll(q); err != nil {
						return "", err
					}
				}
			}
			return "done", nil
		},
	}
}

// words are those of a question as others read it.
func words(t *testing.T, m *durable.Core, name string) string {
	t.Helper()
	a, err := m.FindAsked(t.Context(), name)
	require.NoError(t, err)
	assert.True(t, a.Open)
	return string(a.Step.Params)
}

// An old token of a saga that has become a task does not change what others read.
func TestOldTokensDoNotReword(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var paid []int
		m := r.manager(nil, paysTwice(&paid, nameForm))
		r.work(m)
		old, s := call(m, "buy", "{}").Request, call(m, "buy", "")
		first, err := m.Turns.Call(t.Context(), old)
		require.NoError(t, err)
		name := waitingFor(t, m, "finance")[0]
		require.NoError(t, answersAs(m, name, "jo", 1))
		old.Token = first.Token
		second, err := m.Turns.Resume(t.Context(), old)
		require.NoError(t, err)
		s.Request.Token, s.AtOnce = second.Token, true
		s.Request.Answers = []steps.Answer{accept(second.Steps[0].ID, `{"name":"Ada"}`)}
		r.start(m, s)
		time.Sleep(time.Second)
		require.Contains(t, words(t, m, name), "Pay 1000?")
		_, err = m.Turns.Resume(t.Context(), old)
		require.ErrorContains(t, err, "token")
		assert.Contains(t, words(t, m, name), "Pay 1000?")
		assert.Equal(t, []int{1}, paid)
	})
}

// The answer to other words does not count, also if the page is shown again while the saga asks in these.
func TestThePageIsShownWhileTheSagaRewords(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var paid []int
		tool := paysTwice(&paid)
		b := r.manager(func(c *durable.Config) { c.Workers = -1 }, tool)
		var shown atomic.Bool
		var name string
		between := &intercept.Store{Store: r.store, Around: func(ctx context.Context, c intercept.Call, next func() error) error {
			if shown.Load() && c.Method == "Write" {
				_, _ = b.FindAsked(ctx, name)
			}
			return next()
		}}
		m := r.manager(func(c *durable.Config) { c.Store = between }, tool)
		r.work(m)
		r.start(m, call(m, "buy", "{}"))
		time.Sleep(time.Second)
		name = waitingFor(t, b, "finance")[0]
		shown.Store(true)
		require.NoError(t, answersAs(b, name, "jo", 1))
		time.Sleep(time.Minute)
		shown.Store(false)
		assert.Contains(t, words(t, b, name), "Pay 1000?")
		assert.Equal(t, []int{1}, paid)
	})
}

type account struct {
	Limit int    `json:"limit" minimum:"1"`
	To    string `json:"to"`
}

// A new version of a tool that asks others in other words, or for more, takes no answer to the old ones, also if it came
// before the new version did. Others have as long to answer as for the first words.
func TestOthersAreAskedAnewByANewVersion(t *testing.T) {
	before := &steps.Form[sum]{ID: "approve", Message: "Pay?", By: steps.By{"finance"}, Within: time.Hour}
	after := &steps.Form[account]{ID: "approve", Message: "Pay, and to whom?", By: steps.By{"finance"}, Within: time.Hour}
	second := &steps.Form[sum]{ID: "second", Message: "And?", By: steps.By{"board"}, Within: 3 * time.Hour}
	tool := func(kind string, asks ...steps.Question) saga.Definition {
		said := func(a steps.Answers) (string, error) {
			got, err := after.Answer(a)
			return fmt.Sprintf("%d to %q", got.Limit, got.To), err
		}
		info := saga.Info{Name: "buy", Tasks: optional, Asks: asks}
		if kind == "flow" {
			return saga.Flow[none, string]{Info: info, Run: func(r *saga.Run, _ none) (string, error) {
				if err := r.AskAll(asks[0].(steps.Request), asks[1].(steps.Request)); err != nil {
					return "", err
				}
				return said(r)
			}}
		}
		return saga.Machine[none, none]{
			Info: info,
			Start: func(tt *turn) (saga.Next, error) {
				return tt.Ask("end", asks[0].(steps.Request), asks[1].(steps.Request))
			},
			Steps: saga.Steps[none, none]{"end": func(tt *turn) (saga.Next, error) {
				text, err := said(tt)
				if err != nil {
					return nil, err
				}
				return tt.Textf("%s", text)
			}},
		}
	}
	for _, kind := range []string{"machine", "flow"} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, early), func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					a, b := r.manager(nil, tool(kind, before, second)), r.manager(nil, tool(kind, after, second))
					stop := r.work(a)
					id := r.start(a, call(a, "buy", "{}")).ID
					time.Sleep(50 * time.Minute)
					name, other := waitingFor(t, a, "finance")[0], waitingFor(t, a, "board")[0]
					if early {
						require.NoError(t, answersAs(a, name, "jo", 1))
					}
					stop()
					r.work(b)
					if !early {
						require.NoError(t, answersAs(b, name, "jo", 1))
					}
					require.NoError(t, answersAs(b, other, "sam", 2))
					time.Sleep(50 * time.Minute)
					asked, err := b.FindAsked(t.Context(), name)
					require.NoError(t, err)
					require.True(t, asked.Open, "it is asked again")
					require.Contains(t, string(asked.Step.Params), "to whom?")
					given := durable.PersonAnswer{Action: "accept", By: "jo", Content: []byte(`{"limit":3,"to":"Ann"}`)}
					require.NoError(t, b.AnswerAsked(t.Context(), asked, given))
					assert.Contains(t, text(t, r.until(b, id, tasks.Completed)), `3 to \"Ann\"`)
				})
			})
		}
	}
}
