package turns

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A turn whose client hangs up when its effect is done is recorded all the same: nobody has to
// wait for a lease, or to perform it again.
func TestClientThatHangsUpWhenItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		first, err := a.call(`{"to":"Rome"}`)
		require.NoError(t, err)
		ctx, hangUp := context.WithCancel(a.context())
		w.at = func(_ context.Context, _ string, after bool) error {
			if after {
				hangUp()
			}
			return nil
		}
		_, _ = a.Resume(ctx, Request{Policy: Carried, Principal: "ann", Client: steps.AllFeatures(), Token: first.Token, Answers: []steps.Answer{say("where", true)}})
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
			w := newWorld()
			s := newShared(t, w.trip(nil))
			a, b := s.replica(), s.replica()
			first, err := a.call(`{"to":"Rome"}`)
			require.NoError(t, err)
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
			_, err = a.Cancel(ctx, Request{Policy: Carried, Principal: "ann", Client: steps.AllFeatures(), Token: first.Token, Answers: []steps.Answer{say("where", true)}})
			require.Error(t, err, name)
			require.Len(t, w.things(), 1, name)
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
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a := s.replica()
		first, err := a.call(`{"to":"Rome"}`, func(q *Request) { q.IdempotencyKey = "k" })
		require.NoError(t, err)
		w.at = func(_ context.Context, _ string, after bool) error {
			if after {
				a.line.die()
			}
			return nil
		}
		_, err = a.resume(first.Token, say("where", true))
		require.Error(t, err)
		require.Len(t, w.things(), 1)
		w.at = nil
		time.Sleep(90 * 24 * time.Hour)
		_, err = s.store.Forget(t.Context(), 100)
		require.NoError(t, err)
		s.replica().work(t)
		time.Sleep(time.Second)
		assert.Empty(t, w.things())
	})
}

// The end of a saga that began without a ledger is remembered as long as its tokens may be
// used to undo.
func TestEndsOfSagasFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		before := s.replica(func(c *Config) { c.Ledger = nil })
		first, err := before.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		second, err := before.resume(first.Token, say("where", true))
		require.NoError(t, err)
		a := s.replica()
		_, err = a.resume(second.Token, say("pay", true))
		require.NoError(t, err)
		time.Sleep(DefaultUndoGrace - time.Hour)
		_, err = s.store.Forget(t.Context(), 100)
		require.NoError(t, err)
		_, err = a.cancel(second.Token)
		require.NoError(t, err)
		assert.Len(t, w.things(), 2)
	})
}

// A saga is abandoned when its own time is over, if that is before its token's.
func TestAbandonedWhenItIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(func(i *saga.Info) { i.MaxAge = 10 * time.Minute }))
		a := s.replica()
		a.work(t)
		first, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		_, err = a.resume(first.Token, say("where", true))
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
		s := newShared(t, saga.Flow[struct{}, int]{Info: saga.Info{Name: "trip", SingleUse: saga.SingleUseRequired}, Run: func(*saga.Run, struct{}) (int, error) {
			runs++
			return runs, nil
		}})
		a := s.replica()
		key := func(q *Request) { q.IdempotencyKey = "k" }
		first, err := a.call(`{}`, key)
		require.NoError(t, err)
		for _, wait := range []time.Duration{23 * time.Hour, 2 * time.Hour} {
			time.Sleep(wait)
			_, err = s.store.Forget(t.Context(), 100)
			require.NoError(t, err)
			again, err := a.call(`{}`, key)
			require.NoError(t, err)
			assert.Equal(t, wait == 23*time.Hour, told(t, first) == told(t, again))
		}
	})
}
