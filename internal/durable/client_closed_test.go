package durable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

const closedText = "The operator of the server has ended the saga. What it did stays."

// The client of a saga that was closed reads so, whatever it sends and with which token: told to begin again, it would
// have everything twice.
func TestClientsOfClosedSagas(t *testing.T) {
	for name, late := range map[string]time.Duration{"in time": 0, "late": 20 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := tripFleet(t)
				a := s.replica()
				first := a.begin(t, `{"to":"Rome"}`)
				second, err := a.resume(first.Token, say("where", true))
				require.NoError(t, err)
				stays, err := a.core.CloseNow(t.Context(), a.onlyWaiting(t).ID)
				require.NoError(t, err)
				assert.Equal(t, []string{"hold"}, stays)
				a.work(t)
				time.Sleep(late)
				for _, token := range []string{first.Token, second.Token} {
					for _, answers := range [][]steps.Answer{{say("where", true)}, {say("pay", true)}, {say("pay", false)}, nil} {
						end, err := a.resume(token, answers...)
						require.NoError(t, err)
						assert.Equal(t, closedText, end.Result.Content.Text())
						assert.True(t, end.Result.IsError)
					}
					end, err := a.cancel(token)
					require.NoError(t, err)
					assert.Contains(t, end.Result.Content.Text(), closedText)
				}
				assert.Equal(t, []string{"hold"}, w.things())
			})
		})
	}
}

// What could not be undone and was closed then cannot be tried again.
func TestClientsOfClosedUndos(t *testing.T) {
	for _, how := range []string{"cancelled", "abandoned"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := tripFleet(t)
				w.unwilling["hold"] = true
				a := s.replica()
				first := a.begin(t, `{"to":"Rome","early":true}`)
				if how == "cancelled" {
					end, err := a.cancel(first.Token)
					require.NoError(t, err)
					require.Contains(t, end.Result.Content.Text(), "Not undone: hold.")
				} else {
					a.work(t)
					require.NoError(t, a.core.UndoNow(t.Context(), a.onlyWaiting(t).ID))
					time.Sleep(time.Second)
					end, err := a.resume(first.Token, say("where", true))
					require.NoError(t, err)
					require.Contains(t, end.Result.Content.Text(), "Not undone: hold.")
				}
				stays, err := a.core.CloseNow(t.Context(), a.onlyWaiting(t).ID)
				require.NoError(t, err)
				assert.Equal(t, []string{"hold"}, stays)
				end, err := a.cancel(first.Token)
				require.NoError(t, err)
				assert.Contains(t, end.Result.Content.Text(), closedText)
				assert.NotContains(t, end.Result.Content.Text(), "tried again")
				if how == "abandoned" {
					end, err = a.resume(first.Token, say("where", true))
					require.NoError(t, err)
					assert.Equal(t, closedText, end.Result.Content.Text())
				}
			})
		})
	}
}

// A saga that has no row before the turn in which its server dies is remembered for as long as its token opens, on servers whose
// clocks differ, too.
func TestClientsOfClosedSagasThatBrokeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		w.dies(a, "hold")
		_, err := a.resume(first.Token, say("where", true))
		require.Error(t, err)
		time.Sleep(leaseTime + time.Second)
		_, err = b.core.CloseNow(t.Context(), b.onlyWaiting(t).ID)
		require.NoError(t, err)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew/2 - leaseTime)
		s.forget()
		end, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		require.NotNil(t, end.Result, "it continues")
		assert.Equal(t, closedText, end.Result.Content.Text())
		assert.Equal(t, []string{"hold"}, w.things())
	})
}
