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
