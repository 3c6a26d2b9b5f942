package durable_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a saga did whose client never comes back is undone, when its token is good no longer,
// once, by one of the workers.
func TestAbandonedSagasAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		other, err := a.call(`{"to":"Oslo"}`)
		require.NoError(t, err)
		one, two := a.work(t), b.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew - time.Second)
		assert.Equal(t, []string{"hold"}, w.things(), "not too soon")
		time.Sleep(3 * time.Second)
		assert.Empty(t, w.things())
		assert.Equal(t, []string{"hold", "undo hold"}, w.calls)
		assert.Contains(t, s.logged(), "abandoned saga undone")

		end, err := b.resume(second.Token, say("pay", true))
		require.NoError(t, err, "it is told what became of it")
		assert.Equal(t, tokens.ReasonExpired, end.Gone)
		assert.True(t, end.Result.IsError)
		assert.Contains(t, end.Result.Content.Text(), "came back too late")
		assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
		cancelled, err := a.cancel(second.Token)
		require.NoError(t, err)
		assert.Equal(t, end.Result.Content.Text(), cancelled.Result.Content.Text())
		assert.Len(t, w.calls, 2)
		one()
		two()
		time.Sleep(20 * 24 * time.Hour) // as long as a token may be used to undo
		s.forget()
		_, err = b.cancel(second.Token)
		require.NoError(t, err)
		assert.Len(t, w.calls, 2)
		_, err = a.resume(other.Token, say("where", true))
		require.ErrorIs(t, err, tokens.ErrRejected, "of which nothing was to be undone")

		// Nothing is left of it when no token opens any more, at all.
		time.Sleep(turns.DefaultUndoGrace + time.Hour)
		s.forget()
		assert.Empty(t, s.all())
	})
}

// A client that is told again what became of its saga is told what was undone since.
func TestAbandonedSagasTellWhatWasUndoneSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		w.unwilling = map[string]bool{"hold": true}
		s := newFleet(t, w.trip(nil))
		a := s.replica()
		first := a.begin(t, `{"to":"Rome","early":true}`)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		late := func() turns.End {
			end, err := a.resume(first.Token, say("where", true))
			require.NoError(t, err)
			assert.Equal(t, tokens.ReasonExpired, end.Gone)
			assert.True(t, end.Result.IsError)
			assert.Contains(t, end.Result.Content.Text(), "came back too late")
			return end
		}
		told := late()
		require.Equal(t, []string{"hold"}, turns.UndoReport(told.Result).Outstanding)
		assert.Contains(t, told.Result.Content.Text(), "This can be tried again.")
		a.work(t)
		time.Sleep(time.Hour)
		again := turns.UndoReport(late().Result)
		assert.Equal(t, []string{"hold"}, again.Outstanding, "also after tries that fail")
		assert.NotEmpty(t, again.SagaToken)
		w.mu.Lock()
		w.unwilling = nil
		w.mu.Unlock()
		time.Sleep(6 * time.Hour)
		require.Empty(t, w.things())
		told = late()
		assert.Equal(t, []string{"hold"}, turns.UndoReport(told.Result).Undone)
		assert.Empty(t, turns.UndoReport(told.Result).Outstanding)
		assert.NotContains(t, told.Result.Content.Text(), "tried again")
	})
}

// If all replicas are down at that moment, the first that is up again does it.
func TestAbandonedWhileAllWereDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		first, err := s.replica().call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		require.NotEmpty(t, first.Token)
		time.Sleep(90 * 24 * time.Hour)
		s.forget()
		s.replica().work(t)
		time.Sleep(time.Second)
		assert.Empty(t, w.things())
	})
}

// A client that comes at the very moment gets either its turn or the report, never both.
func TestClientAndWorkerAtOnce(t *testing.T) {
	outcomes := map[string]int{}
	for i := range 40 {
		synctest.Test(t, func(t *testing.T) {
			w, s := tripFleet(t)
			a, b := s.replica(), s.replica()
			// The client's replica is a little behind, so that the token is still good there.
			a.Now = func() time.Time { return time.Now().Add(-5 * time.Second) }
			b.work(t)
			first := a.begin(t, `{"to":"Rome","early":true}`)
			wait := time.Duration(i) * 7 * time.Millisecond
			for _, l := range []*line{a.line, b.line} {
				slow := 11 * time.Millisecond
				if l == b.line {
					slow = 30 * time.Millisecond
				}
				l.on(func(int, string) error { time.Sleep(slow); return nil })
			}
			time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew - 5*time.Second - 100*time.Millisecond + wait)
			end, err := a.resume(first.Token, say("where", true))
			time.Sleep(time.Second)
			switch {
			case err != nil:
				t.Fatal(err)
			case end.Token != "":
				outcomes["turn"]++
				assert.Len(t, w.things(), 1)
				assert.Equal(t, []string{"hold"}, w.calls)
			default:
				outcomes["report"]++
				assert.Equal(t, tokens.ReasonExpired, end.Gone)
				assert.Empty(t, w.things())
			}
		})
	}
	assert.Positive(t, outcomes["turn"])
	assert.Positive(t, outcomes["report"])
	t.Log(outcomes)
}

// An undo that fails is tried again with growing pauses, shown, and given up in the end.
func TestFailingUndoIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		w.unwilling = map[string]bool{"hold": true}
		s := newFleet(t, w.trip(nil))
		a := s.replica()
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		a.work(t)
		list := func() []durable.Waiting { return a.waiting(t) }
		time.Sleep(time.Minute)
		require.Len(t, list(), 1)
		assert.Equal(t, durable.Suspended, list()[0].State)
		assert.Equal(t, []string{"hold"}, list()[0].Effects)
		assert.Equal(t, "trip", list()[0].Tool)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew - time.Minute + time.Second)
		require.Equal(t, durable.Failing, list()[0].State)
		assert.Equal(t, 1, list()[0].Failures)
		assert.Contains(t, list()[0].LastError, "not now")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		tries := len(w.calls)
		assert.Equal(t, list()[0].Failures, tries-1)
		assert.Greater(t, tries, 10)
		assert.Less(t, tries, 15)
		time.Sleep(20 * 24 * time.Hour)
		require.Equal(t, durable.GivenUp, list()[0].State)
		tries = len(w.calls)
		assert.Contains(t, s.logged(), "will not be tried again")
		time.Sleep(5 * 24 * time.Hour)
		assert.Len(t, w.calls, tries)

		w.mu.Lock()
		w.unwilling = nil
		w.mu.Unlock()
		require.NoError(t, a.core.UndoNow(t.Context(), list()[0].ID))
		time.Sleep(time.Second)
		assert.Empty(t, w.things())
		assert.Empty(t, list())
		assert.ErrorIs(t, a.core.UndoNow(t.Context(), store.ID{1}), durable.ErrNothingWaits)
	})
}

// An operator need not wait for a client.
func TestUndoNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		a.work(t)
		synctest.Wait()
		first := a.begin(t, `{"to":"Rome","early":true}`)
		for _, waiting := range a.waiting(t) {
			require.NoError(t, a.core.UndoNow(t.Context(), waiting.ID))
		}
		time.Sleep(time.Second)
		assert.Empty(t, w.things())
		end, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		require.NotNil(t, turns.UndoReport(end.Result), "%s", s.logged())
		assert.Contains(t, end.Result.Content.Text(), "operator has ended the saga")
		assert.Equal(t, turns.ReasonOperator, end.Gone)
		assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
	})
}

// The first turn has no token. If its worker dies nobody can take it again, so it is undone.
func TestFirstTurnsThatWereLostAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		b.work(t)
		w.at = func(_ context.Context, _ string, after bool) error {
			if after {
				a.line.die()
			}
			return nil
		}
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.Error(t, err)
		require.Len(t, w.things(), 1)
		time.Sleep(leaseTime + time.Second)
		assert.Empty(t, w.things())
		assert.Empty(t, b.waiting(t))
	})
}

// A late client and a turn that was lost: what it did is found and undone.
func TestLateClientOfALostTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome","early":true}`)
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		w.lose(t, a, second.Token, say("pay", true))
		require.ElementsMatch(t, []string{"hold", "charge"}, w.things())
		time.Sleep(time.Hour)
		// The turn had ended it well, though nobody was told.
		end, err := b.resume(second.Token, say("pay", false))
		require.NoError(t, err)
		assert.Equal(t, "booked", end.Result.Content.Text())
		assert.Empty(t, end.Gone)
		again, err := b.resume(second.Token, say("pay", true))
		require.NoError(t, err)
		assert.Equal(t, told(t, end), told(t, again))
		assert.Len(t, w.things(), 2)
	})
}

// A held saga whose turn breaks off is undone at once, or by a worker if that fails.
func TestHeldTurnsThatBreak(t *testing.T) {
	for _, unwilling := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newOutside()
			w.unwilling = map[string]bool{"hold": unwilling}
			s := newFleet(t, w.trip(nil))
			a := s.replica()
			a.work(t)
			w.at = func(_ context.Context, effect string, after bool) error {
				if effect == "charge" && after {
					panic("oops")
				}
				return nil
			}
			q := turns.Request{Policy: turns.Held, Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "trip"), Arguments: json.RawMessage(`{"to":"Rome"}`)}
			_, err := a.Drive(a.context(), q, asked(func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
				return []steps.Answer{say(list[0].ID, true)}, nil
			}))
			require.ErrorAs(t, err, new(*engine.PanicError))
			if unwilling {
				assert.Equal(t, []string{"hold"}, w.things())
				w.mu.Lock()
				w.unwilling = nil
				w.mu.Unlock()
				time.Sleep(time.Minute + time.Second)
			}
			assert.Empty(t, w.things())
		})
	}
}

// A turn that breaks off each time that it is taken is undone with what it did, as nobody
// will ever get further.
func TestTurnsThatAlwaysBreakAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		a.work(t)
		first := a.begin(t, `{"to":"Rome"}`)
		w.at = func(_ context.Context, _ string, after bool) error {
			if after {
				panic("oops")
			}
			return nil
		}
		for range 3 {
			_, err := a.resume(first.Token, say("where", true))
			require.ErrorAs(t, err, new(*engine.PanicError))
		}
		assert.Equal(t, []string{"hold"}, w.things())
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		assert.Empty(t, w.things())
	})
}

// An operator who wants a saga undone waits for the turn that is under way.
func TestUndoNowWaitsForTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		b.work(t)
		synctest.Wait()
		first := a.begin(t, `{"to":"Rome"}`)
		w.at = func(context.Context, string, bool) error { time.Sleep(8 * time.Second); return nil }
		var done sync.WaitGroup
		done.Go(func() {
			end, err := a.resume(first.Token, say("where", true))
			assert.NoError(t, err)
			assert.NotEmpty(t, end.Token)
		})
		time.Sleep(time.Second)
		states := []durable.State{}
		for _, waiting := range a.waiting(t) {
			states = append(states, waiting.State)
			require.NoError(t, a.core.UndoNow(t.Context(), waiting.ID))
		}
		assert.Equal(t, []durable.State{durable.Running}, states)
		done.Wait()
		time.Sleep(2 * leaseTime)
		assert.Empty(t, w.things())
		assert.Equal(t, []string{"hold", "undo hold"}, w.calls)
	})
}

// An operator who wanted a saga undone reads that it was not, if its turn has ended it well meanwhile.
func TestUndoNowOfWhatEndsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		a.work(t)
		synctest.Wait()
		first := a.begin(t, `{"to":"Rome"}`)
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		w.at = func(context.Context, string, bool) error { time.Sleep(8 * time.Second); return nil }
		var done sync.WaitGroup
		done.Go(func() {
			end, err := a.resume(second.Token, say("pay", true))
			assert.NoError(t, err)
			assert.Empty(t, end.Token)
		})
		time.Sleep(time.Second)
		waiting := a.onlyWaiting(t)
		require.NoError(t, a.core.UndoNow(t.Context(), waiting.ID))
		done.Wait()
		_, err = a.core.Look(t.Context(), waiting.ID)
		assert.ErrorIs(t, err, durable.ErrTooLate)
		assert.NotContains(t, w.calls, "undo hold")
	})
}
