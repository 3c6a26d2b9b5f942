package durable_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The same request again gets what was answered, on every replica; another one does not.
func TestRunnersTakeTurnsOnce(t *testing.T) {
	w, s := tripFleet(t)
	a, b := s.replica(), s.replica()
	first := a.begin(t, `{"to":"Rome"}`)
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	require.NotEmpty(t, second.Token)
	again, err := b.resume(first.Token, steps.Answer{StepID: "where", Result: []byte(` {"content":{"ok":true}, "action":"accept"}`)})
	require.NoError(t, err)
	assert.Equal(t, told(t, second), told(t, again))
	_, err = b.resume(first.Token, say("where", false))
	spent(t, err)

	last, err := b.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	assert.Equal(t, "booked", last.Result.Content.Text())
	again, err = a.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	assert.Equal(t, told(t, last), told(t, again))
	for _, token := range []string{first.Token, second.Token} {
		_, err = a.resume(token, say("pay", false))
		spent(t, err)
	}
	assert.ElementsMatch(t, []string{"hold", "charge"}, w.calls)
}

// Where an author allows it, a turn may be taken again with other answers.
func TestForks(t *testing.T) {
	w := newOutside()
	s := newFleet(t, w.trip(func(i *saga.Info) { i.SingleUse = saga.SingleUseNever }))
	a := s.replica()
	first := a.begin(t, `{"to":"Rome"}`)
	for _, ok := range []bool{true, false} {
		_, err := a.resume(first.Token, say("where", ok))
		require.NoError(t, err)
	}
	assert.Empty(t, a.line.ops, "what is not remembered costs nothing")
}

// A thousand at once perform an effect once, and are told the same.
func TestDuplicatesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		w.at = func(_ context.Context, _ string, after bool) error {
			time.Sleep(time.Second)
			return nil
		}
		replicas := []*replica{s.replica(), s.replica(), s.replica()}
		first, err := replicas[0].call(`{"to":"Rome"}`)
		require.NoError(t, err)
		answers := make([]string, 200)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				end, err := replicas[i%3].resume(first.Token, say("where", true))
				if assert.NoError(t, err) {
					answers[i] = told(t, end)
				}
			})
		}
		all.Wait()
		for _, text := range answers {
			assert.Equal(t, answers[0], text)
		}
		assert.Equal(t, []string{"hold"}, w.calls)
	})
}
