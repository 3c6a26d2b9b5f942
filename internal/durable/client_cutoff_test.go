package durable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A turn whose client hangs up when its effect is done is recorded all the same: nobody has to
// wait for a lease, or to perform it again.
func TestClientThatHangsUpWhenItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		ctx, hangUp := context.WithCancel(a.context())
		w.at = func(_ context.Context, _ string, after bool) error {
			if after {
				hangUp()
			}
			return nil
		}
		_, _ = a.Resume(ctx, turns.Request{Policy: turns.Carried, Principal: "ann", Client: steps.AllFeatures(), Token: first.Token, Answers: []steps.Answer{say("where", true)}})
		began := time.Now()
		second, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		assert.NotEmpty(t, second.Token)
		assert.Zero(t, time.Since(began))
	})
}

// What a client has begun to cancel is undone soon, whatever becomes of the client and of the
// server that it asked.
func TestCancelThatIsCutOff(t *testing.T) {
	for name, most := range map[string]time.Duration{"the client hangs up": time.Second, "the server dies": leaseTime + time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, s := tripFleet(t)
			a, b := s.replica(), s.replica()
			first := a.begin(t, `{"to":"Rome"}`)
			ctx, hangUp := context.WithCancel(a.context())
			// The answers bring a turn with them, in which it is cut off.
			w.at = func(_ context.Context, _ string, after bool) error {
				if !after {
					return nil
				}
				if name == "the server dies" {
					a.line.die()
				}
				hangUp()
				panic("oops")
			}
			_, err := a.Cancel(ctx, turns.Request{Policy: turns.Carried, Principal: "ann", Client: steps.AllFeatures(), Token: first.Token, Answers: []steps.Answer{say("where", true)}})
			if name == "the server dies" {
				require.Error(t, err)
				require.Len(t, w.things(), 1)
			}
			w.at = nil
			b.work(t)
			time.Sleep(most)
			assert.Empty(t, w.things(), name)
			end, err := b.cancel(first.Token)
			require.NoError(t, err)
			assert.Contains(t, end.Result.Content.Text(), "ancelled", name)
		})
	}
}

// A record with a claim is kept until somebody has looked at it, however long that takes,
// even if it would have been forgotten without.
func TestClaimsAreNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		first := a.begin(t, `{"to":"Rome"}`, func(q *turns.Request) { q.IdempotencyKey = "k" })
		w.lose(t, a, first.Token, say("where", true))
		require.Len(t, w.things(), 1)
		time.Sleep(90 * 24 * time.Hour)
		s.forget()
		s.replica().work(t)
		time.Sleep(time.Second)
		assert.Empty(t, w.things())
	})
}

// The end of a saga that began without a ledger is remembered as long as its tokens may be
// used to undo.
func TestEndsOfSagasFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		before := s.replica(func(c *clientConfig) { c.forgets = true })
		first := before.begin(t, `{"to":"Rome","early":true}`)
		second, err := before.resume(first.Token, say("where", true))
		require.NoError(t, err)
		a := s.replica()
		_, err = a.resume(second.Token, say("pay", true))
		require.NoError(t, err)
		time.Sleep(turns.DefaultUndoGrace - time.Hour)
		s.forget()
		_, err = a.cancel(second.Token)
		require.NoError(t, err)
		assert.Len(t, w.things(), 2)
	})
}

// A saga is abandoned when its own time is over, if that is before its token's.
func TestAbandonedWhenItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.trip(func(i *saga.Info) { i.MaxAge = 10 * time.Minute }))
		a := s.replica()
		a.work(t)
		first := a.begin(t, `{"to":"Rome","early":true}`)
		time.Sleep(5 * time.Minute)
		_, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		time.Sleep(5*time.Minute + tokens.DefaultSkew - 2*time.Second)
		assert.Len(t, w.things(), 1)
		time.Sleep(4 * time.Second)
		assert.Empty(t, w.things())
	})
}

// A first call with a key is known for a day, also if its saga has no effects, whose record
// nobody else needs so long.
func TestKeysAreKnownForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		s := newFleet(t, saga.Flow[struct{}, int]{Info: saga.Info{Name: "trip", SingleUse: saga.SingleUseRequired}, Run: func(*saga.Run, struct{}) (int, error) {
			runs++
			return runs, nil
		}})
		a := s.replica()
		key := func(q *turns.Request) { q.IdempotencyKey = "k" }
		first := a.begin(t, `{}`, key)
		for _, wait := range []time.Duration{23 * time.Hour, 2 * time.Hour} {
			time.Sleep(wait)
			s.forget()
			again, err := a.call(`{}`, key)
			require.NoError(t, err)
			assert.Equal(t, wait == 23*time.Hour, told(t, first) == told(t, again))
		}
	})
}

// Who has claimed a turn with a clock that is ahead keeps nobody waiting longer than a lease.
func TestClaimsOfAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		a.Now = func() time.Time { return time.Now().Add(30 * time.Second) }
		w.lose(t, a, first.Token, say("where", true))
		began := time.Now()
		_, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(began), leaseTime+time.Second)
	})
}

// What somebody has begun to undo does not go on, though its client comes in time.
func TestClientInTimeOfWhatIsBeingUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		w.unwilling = map[string]bool{"hold": true}
		s := newFleet(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome","early":true}`)
		stop := a.work(t)
		synctest.Wait()
		swaps := a.line.count("Write")
		a.line.on(func(int, string) error {
			if a.line.count("Write") > swaps+1 { // it has claimed the saga, and dies
				return errDead
			}
			return nil
		})
		require.NoError(t, b.core.UndoNow(t.Context(), b.onlyWaiting(t).ID))
		time.Sleep(2 * time.Second)
		stop()
		require.Equal(t, []string{"hold", "undo hold"}, w.calls)
		w.mu.Lock()
		w.unwilling = nil
		w.mu.Unlock()
		end, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		assert.NotEmpty(t, end.Gone)
		assert.Empty(t, w.things())
	})
}

// What a turn was answered stays its answer, also when more of it is undone later.
func TestResponsesOutliveLaterReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		w.unwilling = map[string]bool{"hold": true}
		s := newFleet(t, w.trip(nil))
		a := s.replica()
		a.work(t)
		first := a.begin(t, `{"to":"Rome","early":true}`)
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		w.at = func(context.Context, string, bool) error { return saga.Refused(errors.New("no money")) }
		failed, err := a.resume(second.Token, say("pay", true))
		require.NoError(t, err)
		require.Equal(t, []string{"hold"}, turns.UndoReport(failed.Result).Outstanding)
		w.mu.Lock()
		w.unwilling = nil
		w.mu.Unlock()
		time.Sleep(time.Hour)
		require.Empty(t, w.things())
		again, err := a.resume(second.Token, say("pay", true))
		require.NoError(t, err)
		assert.Equal(t, told(t, failed), told(t, again))
		for _, token := range []string{second.Token, turns.UndoReport(again.Result).SagaToken} {
			end, err := a.cancel(token)
			require.NoError(t, err)
			assert.Empty(t, turns.UndoReport(end.Result).Outstanding)
			assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
		}
	})
}

// A call that was held in a server that died begins anew when its time is over.
func TestHeldCallsOfAServerThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := tripFleet(t)
		held := func(q *turns.Request) { q.Policy, q.IdempotencyKey = turns.Held, "k" }
		_, err := s.replica().call(`{"to":"Rome","early":true}`, held)
		require.NoError(t, err)
		b := s.replica()
		_, err = b.call(`{"to":"Rome","early":true}`, held)
		require.ErrorIs(t, err, turns.ErrUnderWay, "whoever holds it may still be there")
		time.Sleep(tokens.DefaultTTL)
		end, err := b.call(`{"to":"Rome","early":true}`, held)
		require.NoError(t, err)
		assert.NotEmpty(t, end.Token)
	})
}

// A client can have tried again at once what could not be undone.
func TestClientTriesAgainToUndo(t *testing.T) {
	w := newOutside()
	w.unwilling = map[string]bool{"hold": true}
	s := newFleet(t, w.trip(nil))
	a := s.replica()
	first := a.begin(t, `{"to":"Rome","early":true}`)
	end, err := a.cancel(first.Token)
	require.NoError(t, err)
	again := turns.UndoReport(end.Result).SagaToken
	require.NotEmpty(t, again)
	w.unwilling = nil
	end, err = a.cancel(again)
	require.NoError(t, err)
	assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
	assert.Empty(t, w.things())
}

// A turn that was lost, and was found and undone by a worker, is not taken for one that was
// answered.
func TestLostTurnsThatAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		w.lose(t, a, first.Token, say("where", true))
		b.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		require.Empty(t, w.things())
		end, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		assert.Equal(t, tokens.ReasonExpired, end.Gone)
	})
}

// Who cancels with answers that were not sent before has no turn taken with them.
func TestCancelTakesNoNewTurn(t *testing.T) {
	w, s := tripFleet(t)
	a := s.replica()
	first := a.begin(t, `{"to":"Rome"}`)
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	end, err := a.cancel(second.Token, say("pay", true))
	require.NoError(t, err)
	assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
	assert.Equal(t, []string{"hold", "undo hold"}, w.calls)
}

// Who cancels what was undone meanwhile has what it wants.
func TestCancelOfWhatWasAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := tripFleet(t)
		a := s.replica()
		a.work(t)
		first := a.begin(t, `{"to":"Rome","early":true}`)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		end, err := a.cancel(first.Token)
		require.NoError(t, err)
		assert.False(t, end.Result.IsError)
		assert.Empty(t, end.Gone)
	})
}
