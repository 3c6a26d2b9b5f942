package durable_test

import (
	"context"

	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Bytes that are no text, from whomever, neither stop a turn nor the undoing of it.
func TestWhatIsNotUTF8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		fail := steps.Answer{StepID: "pay", Error: &steps.ClientError{Code: 1, Message: "no\xff"}}
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		end, err := a.resume(second.Token, fail)
		require.NoError(t, err)
		again, err := a.resume(second.Token, fail)
		require.NoError(t, err)
		assert.Equal(t, told(t, end), told(t, again))
		assert.Empty(t, w.things())
	})
}

// What a worker needs to undo is there as long as it tries, also where clients are not let
// undo what comes late.
func TestLargeStatesAreKeptForWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		w.unwilling = map[string]bool{"hold": true}
		s := newFleet(t, w.trip(func(i *saga.Info) { i.ShortTokens = true }))
		a := s.replica(func(c *clientConfig) { c.UndoGrace = -1 })
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		time.Sleep(10 * 24 * time.Hour) // nobody runs
		s.forget()
		a.work(t)
		time.Sleep(7 * 24 * time.Hour)
		w.mu.Lock()
		w.unwilling = nil
		w.mu.Unlock()
		time.Sleep(7 * time.Hour)
		assert.Empty(t, w.things(), "%s", s.logged())
	})
}

// The first turn of a revision that is not served here is not run with other code: that would
// do other things, and not find what was done.
func TestLostFirstTurnOfAnotherRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		a.work(t)
		synctest.Wait()
		w.at = func(_ context.Context, _ string, after bool) error {
			if after {
				a.line.die()
			}
			return nil
		}
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.Error(t, err)
		w.at = nil
		require.Len(t, w.calls, 1)

		next := w.trip(func(i *saga.Info) { i.Revision = 1 }).(saga.Flow[tripArgs, string])
		next.Oldest = 1
		s.tools = []saga.Definition{next}
		b := s.replica()
		b.work(t)
		time.Sleep(time.Hour)
		assert.Len(t, w.calls, 1, "%s", s.logged())
		one := b.onlyWaiting(t)
		assert.Equal(t, durable.Failing, one.State)
		assert.Contains(t, one.LastError, "revision 0 of the tool is not served here")

		s.tools = append(s.tools, w.trip(nil))
		s.replica().work(t)
		time.Sleep(7 * 24 * time.Hour) // of the two it is chance who comes first
		assert.Empty(t, w.things())
	})
}

// A tool that demands single use is refused without a ledger, also in an older revision.
func TestSingleUseIsRequiredOfOldRevisions(t *testing.T) {
	w := newOutside()
	s := newFleet(t, w.trip(func(i *saga.Info) { i.Revision = 1 }), w.trip(func(i *saga.Info) { i.SingleUse = saga.SingleUseRequired }))
	tools, err := engine.NewRegistry(s.tools...)
	require.NoError(t, err)
	err = turns.NeedLedger(tools)
	var wrong *saga.DefinitionError
	require.ErrorAs(t, err, &wrong)
}

// Sagas that cannot be read here are shown, and left to whoever can read them.
func TestSagasOfADisabledKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		next, id, err := s.keys.Add(codec.XAES256GCM)
		require.NoError(t, err)
		next, err = next.Promote(id)
		require.NoError(t, err)
		disabled, err := next.Disable(s.keys.Primary().ID)
		require.NoError(t, err)
		s.keys = disabled
		b := s.replica()
		stop := b.work(t)
		time.Sleep(tokens.DefaultTTL + time.Hour)
		one := b.onlyWaiting(t)
		assert.Equal(t, durable.Unreadable, one.State)
		assert.Equal(t, "trip", one.Tool)
		assert.Contains(t, one.LastError, "a key that is not enabled")
		n := strings.Count(s.logged(), "sagas cannot be read")
		assert.Greater(t, n, 5)
		assert.Less(t, n, 15)
		require.Len(t, w.things(), 1)
		stop()

		s.keys = next
		s.replica().work(t)
		time.Sleep(time.Minute)
		assert.Empty(t, w.things())
	})
}

// What has ended well is not undone by an operator's mistake.
func TestUndoNowOfWhatHasEnded(t *testing.T) {
	_, s := tripFleet(t)
	a := s.replica()
	first := a.begin(t, `{"to":"Rome"}`)
	second, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	_, err = a.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	require.Len(t, s.all(), 1)
	require.ErrorIs(t, a.core.UndoNow(t.Context(), s.all()[0].ID), durable.ErrNothingWaits)
}

// A panic below a worker ends its attempt, and not the server.
func TestWorkerThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		a.work(t)
		synctest.Wait()
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		once := true
		a.line.on(func(_ int, op string) error {
			if op == "Write" && once {
				once = false
				panic("oops")
			}
			return nil
		})
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		assert.Equal(t, durable.Failing, a.onlyWaiting(t).State)
		time.Sleep(2 * time.Minute)
		assert.Empty(t, w.things())
	})
}

// What of a saga was sealed with a key that is not enabled any more hides nothing of the rest of its history.
func TestHistoryOfADisabledKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := tripFleet(t)
		first, err := s.replica().call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		old := s.keys.Primary().ID
		next, added, err := s.keys.Add(codec.XAES256GCM)
		require.NoError(t, err)
		s.keys, err = next.Promote(added)
		require.NoError(t, err)
		second, err := s.replica().resume(first.Token, say("where", true))
		require.NoError(t, err)
		require.NotEmpty(t, second.Token)
		s.keys, err = s.keys.Disable(old)
		require.NoError(t, err)
		a := s.replica()
		var kinds []string
		for e, err := range a.core.History(t.Context(), a.onlyWaiting(t).ID) {
			require.NoError(t, err)
			kinds = append(kinds, e.Kind)
		}
		assert.Equal(t, "unreadable", kinds[0])
		assert.Equal(t, "turn", kinds[len(kinds)-1])
	})
}
