package durable_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// What a turn did that was lost is found and undone with the saga.
func TestLostTurnsAreUndone(t *testing.T) {
	for name, how := range map[string]string{"by the client": "cancel", "by a worker": "work", "the client late": "late"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := tripFleet(t)
				a, b := s.replica(), s.replica()
				first := a.begin(t, `{"to":"Rome"}`)
				w.lose(t, a, first.Token, say("where", true))
				require.Len(t, w.things(), 1)
				switch how {
				case "cancel":
					end, err := b.cancel(first.Token)
					require.NoError(t, err)
					assert.Equal(t, "Cancelled.\nUndone: hold.", end.Result.Content.Text())
				case "work":
					b.work(t)
					time.Sleep(12 * time.Minute)
				case "late":
					time.Sleep(time.Hour)
					end, err := b.resume(first.Token, say("where", true))
					require.NoError(t, err)
					assert.Equal(t, tokens.ReasonExpired, end.Gone)
					assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
				}
				assert.Empty(t, w.things())
			})
		})
	}
}

// Cancelling ends the saga where it is now, and says so of one that has ended.
func TestCancelWithALedger(t *testing.T) {
	w, s := tripFleet(t)
	a := s.replica()
	first := a.begin(t, `{"to":"Rome"}`)
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	end, err := a.cancel(first.Token, say("where", true))
	require.NoError(t, err)
	assert.Equal(t, "Cancelled.\nUndone: hold.", end.Result.Content.Text())
	assert.Empty(t, w.things())
	for _, token := range []string{first.Token, second.Token} {
		again, err := a.cancel(token)
		require.NoError(t, err)
		assert.Equal(t, told(t, end), told(t, again))
		_, err = a.resume(token, say("pay", true), say("where", true))
		spent(t, err)
	}
	assert.Equal(t, []string{"hold", "undo hold"}, w.calls)

	// One that ended well is not undone by any of its tokens.
	first, err = a.call(`{"to":"Rome"}`)
	require.NoError(t, err)
	second, err = a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	last, err := a.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	for _, token := range []string{first.Token, second.Token} {
		end, err = a.cancel(token)
		require.NoError(t, err)
		assert.True(t, end.Result.IsError)
		assert.Equal(t, "Not cancelled: it is too late. The saga has ended:\nbooked", end.Result.Content.Text())
	}
	end, err = a.cancel(second.Token, say("pay", true)) // as when the response was lost
	require.NoError(t, err)
	assert.Equal(t, told(t, last), told(t, end))
	assert.Len(t, w.things(), 2)

	// One that has done nothing leaves tokens that are good for nothing.
	first, err = a.call(`{"to":"Rome"}`)
	require.NoError(t, err)
	_, err = a.cancel(first.Token)
	require.NoError(t, err)
	_, err = a.resume(first.Token, say("where", true))
	spent(t, err)
}

// A cancelled saga waits for the turn that is under way.
func TestCancelWaitsForTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		w.at = func(context.Context, string, bool) error { time.Sleep(3 * time.Second); return nil }
		var done sync.WaitGroup
		done.Go(func() {
			_, err := a.resume(first.Token, say("where", true))
			assert.NoError(t, err)
		})
		time.Sleep(time.Second)
		end, err := b.cancel(first.Token)
		require.NoError(t, err)
		assert.Equal(t, "Cancelled.\nUndone: hold.", end.Result.Content.Text())
		done.Wait()
		assert.Empty(t, w.things())
	})
}

// A saga whose cancelling was begun does not go on, and is undone though who began it died.
func TestCancellingThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome","early":true}`)
		swaps := 0
		a.line.on(func(_ int, op string) error {
			if op == "Write" {
				if swaps++; swaps == 3 { // it has undone all, and cannot say so
					a.line.die()
					return errDead
				}
			}
			return nil
		})
		_, err := a.cancel(first.Token)
		require.ErrorIs(t, err, turns.ErrLedger)
		_, err = b.resume(first.Token, say("where", true))
		spent(t, err)
		time.Sleep(leaseTime)
		_, err = b.resume(first.Token, say("where", true))
		spent(t, err)
		b.work(t)
		time.Sleep(time.Second)
		assert.Empty(t, w.things())
		end, err := b.cancel(first.Token)
		require.NoError(t, err)
		assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
		assert.Equal(t, []string{"hold", "undo hold", "undo hold"}, w.calls)
	})
}
