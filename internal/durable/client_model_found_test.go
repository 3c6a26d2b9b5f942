package durable_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What random schedules have found, as short as it can be said.

// A first call that is repeated after its saga was abandoned gets the report, not another saga.
func TestCallRepeatedAfterItsSagaWasAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		a.work(t)
		key := func(q *turns.Request) { q.IdempotencyKey = "one" }
		first := a.begin(t, `{"to":"Rome"}`, key)
		_, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		require.Empty(t, w.things())
		again, err := a.call(`{"to":"Rome"}`, key)
		require.NoError(t, err)
		assert.Empty(t, again.Token)
		assert.Equal(t, tokens.ReasonExpired, again.Gone)
	})
}

// Who cancels with what is no answer loses nothing, and locks nothing.
func TestCancelWithWhatIsNoAnswer(t *testing.T) {
	wrong := steps.Answer{StepID: "where", Result: []byte(`{}`)}
	for name, dies := range map[string]bool{"refused": false, "and the worker dies": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, s := tripFleet(t)
				a, b := s.replica(), s.replica()
				first := a.begin(t, `{"to":"Rome"}`)
				if dies {
					a.line.after = func(_ int, op string) error {
						if op == "Write" {
							a.line.die()
						}
						return nil
					}
				}
				_, err := a.cancel(first.Token, wrong)
				require.Error(t, err)
				b.work(t)
				if !dies {
					require.ErrorAs(t, err, new(*engine.AnswerError))
					time.Sleep(time.Minute)
					second, err := b.resume(first.Token, say("where", true))
					require.NoError(t, err)
					assert.NotEmpty(t, second.Token)
					return
				}
				time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
				assert.Empty(t, b.waiting(t))
			})
		})
	}
}

// A store that fails when a worker looks again at what another has changed does not end the
// process.
func TestStoreThatFailsAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		failed := false
		b.line.before = func(_ int, op string) error {
			switch {
			case op == "Write" && len(w.calls) > 1 && !failed: // the record of what was undone
				failed = true
				return store.ErrConflict
			case op == "Load" && failed:
				return errors.New("connection refused")
			}
			return nil
		}
		stop := b.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		stop()
		assert.True(t, failed)
		assert.Contains(t, s.log.String(), "a saga cannot be recorded")
	})
}

// Who takes over an undo of a saga that came too late undoes it: the answers that it came with
// are not taken.
func TestAnswersThatCameTooLateAreNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		a.line.after = func(_ int, op string) error {
			if op == "Write" {
				a.line.die()
			}
			return nil
		}
		_, err = a.resume(second.Token, say("pay", true))
		require.Error(t, err)
		end, err := b.resume(second.Token, say("pay", true))
		require.NoError(t, err)
		require.NotNil(t, turns.UndoReport(end.Result), "a report, and no result")
		assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
		assert.Equal(t, []string{"hold", "undo hold"}, w.calls)
	})
}

// A server whose clock is behind takes a token for longer than others. Until then it is known that
// its saga has ended.
func TestEndsAreKnownToServersWhoseClocksAreBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.trip(nil))
		b := s.replica(func(c *clientConfig) {
			c.Now = func() time.Time { return time.Now().Add(time.Second - tokens.DefaultSkew) }
		})
		first, err := s.replica().call(`{"to":"Rome"}`)
		require.NoError(t, err)
		_, err = b.cancel(first.Token)
		require.NoError(t, err)
		time.Sleep(tokens.DefaultTTL + 2*tokens.DefaultSkew - 2*time.Second)
		s.forget()
		_, err = b.resume(first.Token, say("where", true))
		spent(t, err)
		assert.Empty(t, w.calls)
	})
}
