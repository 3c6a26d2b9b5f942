package turns

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A worker that dies in a turn is replaced when its lease is over, wherever it died, and what
// it did is found by the same key.
func TestDeadWorkersAreReplaced(t *testing.T) {
	for name, after := range map[string]bool{"before the effect": false, "after the effect": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				s := newShared(t, w.trip(nil))
				a, b := s.replica(), s.replica()
				first, err := a.call(`{"to":"Rome"}`)
				require.NoError(t, err)
				w.at = func(ctx context.Context, _ string, now bool) error {
					if l := ctx.Value(lineKey{}); l == a.line && now == after {
						a.line.die()
					}
					return nil
				}
				_, err = a.resume(first.Token, say("where", true))
				require.Error(t, err)
				_, err = b.resume(first.Token, say("where", false))
				spent(t, err)
				begun := time.Now()
				second, err := b.resume(first.Token, say("where", true))
				require.NoError(t, err)
				assert.Equal(t, leaseTime, time.Since(begun).Round(time.Second))
				require.NotEmpty(t, second.Token)
				assert.Equal(t, []string{"hold"}, w.things(), "with one key")
				last, err := b.resume(second.Token, say("pay", true))
				require.NoError(t, err)
				assert.Equal(t, "booked", last.Result.Content.Text())
			})
		})
	}
}

// A worker that was only slow cannot record any more. It tells what was recorded, and does
// not begin another effect.
func TestSlowWorkersAreFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		first, err := a.call(`{"to":"Rome"}`)
		require.NoError(t, err)
		paused := make(chan struct{})
		w.at = func(ctx context.Context, effect string, after bool) error {
			if ctx.Value(lineKey{}) == a.line && after {
				<-paused // and its heart stands still
			}
			return nil
		}
		a.line.on(func(_ int, op string) error {
			if op == "swap" && len(w.things()) > 0 {
				<-paused
			}
			return nil
		})
		var slow End
		var failed error
		var done sync.WaitGroup
		done.Go(func() { slow, failed = a.resume(first.Token, say("where", true)) })
		synctest.Wait()
		second, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		last, err := b.resume(second.Token, say("pay", true))
		require.NoError(t, err)
		require.Equal(t, "booked", last.Result.Content.Text())
		close(paused)
		done.Wait()
		// The saga has gone on, with answers to what its worker never told.
		spent(t, failed)
		assert.Empty(t, slow.Token)
		assert.ElementsMatch(t, []string{"hold", "charge"}, w.things())
	})
}

// A turn that takes longer than a lease keeps its claim.
func TestLongTurnsKeepTheirClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		b.work(t)
		first, err := a.call(`{"to":"Rome"}`)
		require.NoError(t, err)
		w.at = func(ctx context.Context, _ string, after bool) error {
			time.Sleep(12 * time.Second)
			return nil
		}
		var done sync.WaitGroup
		for _, r := range []*replica{a, b} {
			done.Go(func() {
				_, err := r.resume(first.Token, say("where", true))
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		done.Wait()
		assert.Equal(t, []string{"hold"}, w.calls)
	})
}

// What a saga did whose client never comes back is undone, when its token is good no longer,
// once, by one of the workers.
func TestAbandonedSagasAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		first, err := a.call(`{"to":"Rome"}`)
		require.NoError(t, err)
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
		assert.Equal(t, []string{"hold"}, undoReport(end.Result).Undone)
		cancelled, err := a.cancel(second.Token)
		require.NoError(t, err)
		assert.Equal(t, end.Result.Content.Text(), cancelled.Result.Content.Text())
		assert.Len(t, w.calls, 2)
		one()
		two()
		time.Sleep(20 * 24 * time.Hour) // as long as a token may be used to undo
		_, err = s.store.Forget(t.Context(), 100)
		require.NoError(t, err)
		_, err = b.cancel(second.Token)
		require.NoError(t, err)
		assert.Len(t, w.calls, 2)
		_, err = a.resume(other.Token, say("where", true))
		require.ErrorIs(t, err, tokens.ErrRejected, "of which nothing was to be undone")

		// Nothing is left of it when no token opens any more, but what tools there are.
		time.Sleep(DefaultUndoGrace + time.Hour)
		_, err = b.records.Forget(t.Context())
		require.NoError(t, err)
		owner, err := b.records.Saga(t.Context(), "ann", sagaOf(t, b, second.Token))
		require.NoError(t, err)
		assert.False(t, owner.Exists())
	})
}

// If all replicas are down at that moment, the first that is up again does it.
func TestAbandonedWhileAllWereDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		first, err := s.replica().call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		require.NotEmpty(t, first.Token)
		time.Sleep(90 * 24 * time.Hour)
		_, err = s.store.Forget(t.Context(), 100)
		require.NoError(t, err)
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
			w := newWorld()
			s := newShared(t, w.trip(nil))
			a, b := s.replica(), s.replica()
			// The client's replica is a little behind, so that the token is still good there.
			a.Now = func() time.Time { return time.Now().Add(-5 * time.Second) }
			b.work(t)
			first, err := a.call(`{"to":"Rome","early":true}`)
			require.NoError(t, err)
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
		w := newWorld()
		w.unwilling = map[string]bool{"hold": true}
		s := newShared(t, w.trip(nil))
		a := s.replica()
		book := records.New(s.store, a.Codec.Keyset, "here", 0)
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		a.work(t)
		list := func() (list []records.Waiting) {
			for w, err := range book.List(t.Context()) {
				require.NoError(t, err)
				list = append(list, w)
			}
			return list
		}
		time.Sleep(time.Minute)
		require.Len(t, list(), 1)
		assert.Equal(t, records.Suspended, list()[0].State)
		assert.Equal(t, []string{"hold"}, list()[0].Effects)
		assert.Equal(t, records.Target{Name: "trip"}, list()[0].Target)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew - time.Minute + time.Second)
		require.Equal(t, records.Failing, list()[0].State)
		assert.Equal(t, 1, list()[0].Attempts)
		assert.Contains(t, list()[0].LastError, "not now")
		time.Sleep(24 * time.Hour)
		tries := len(w.calls)
		assert.Equal(t, list()[0].Attempts, tries-1)
		assert.Greater(t, tries, 10)
		assert.Less(t, tries, 15)
		time.Sleep(20 * 24 * time.Hour)
		require.Equal(t, records.GivenUp, list()[0].State)
		tries = len(w.calls)
		assert.Contains(t, s.logged(), "will not be tried again")
		time.Sleep(5 * 24 * time.Hour)
		assert.Len(t, w.calls, tries)

		w.mu.Lock()
		w.unwilling = nil
		w.mu.Unlock()
		require.NoError(t, book.UndoNow(t.Context(), list()[0].Key))
		time.Sleep(time.Second)
		assert.Empty(t, w.things())
		assert.Empty(t, list())
		assert.ErrorIs(t, book.UndoNow(t.Context(), "nothing"), records.ErrNothingWaits)
	})
}

// An operator need not wait for a client.
func TestUndoNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a := s.replica()
		a.work(t)
		synctest.Wait() // until it has said what tools there are
		first, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		book := records.New(s.store, a.Codec.Keyset, "here", 0)
		for waiting, err := range book.List(t.Context()) {
			require.NoError(t, err)
			require.NoError(t, book.UndoNow(t.Context(), waiting.Key))
		}
		time.Sleep(time.Second)
		assert.Empty(t, w.things())
		end, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		require.NotNil(t, undoReport(end.Result), "%s", s.logged())
		assert.Equal(t, []string{"hold"}, undoReport(end.Result).Undone)
	})
}

// What a turn did that was lost is found and undone with the saga.
func TestLostTurnsAreUndone(t *testing.T) {
	for name, how := range map[string]string{"by the client": "cancel", "by a worker": "work", "the client late": "late"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				s := newShared(t, w.trip(nil))
				a, b := s.replica(), s.replica()
				first, err := a.call(`{"to":"Rome"}`)
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
					_, err := b.resume(first.Token, say("where", true))
					require.ErrorIs(t, err, tokens.ErrRejected)
					b.work(t)
					time.Sleep(time.Second)
				}
				assert.Empty(t, w.things())
			})
		})
	}
}

// The first turn has no token. If its worker dies nobody can take it again, so it is undone.
func TestFirstTurnsThatWereLostAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
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
		n := 0
		for _, err := range records.New(s.store, b.Codec.Keyset, "here", 0).List(t.Context()) {
			require.NoError(t, err)
			n++
		}
		assert.Zero(t, n)
	})
}

// Cancelling ends the saga where it is now, and says so of one that has ended.
func TestCancelWithALedger(t *testing.T) {
	w := newWorld()
	s := newShared(t, w.trip(nil))
	a := s.replica()
	first, err := a.call(`{"to":"Rome"}`)
	require.NoError(t, err)
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
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		first, err := a.call(`{"to":"Rome"}`)
		require.NoError(t, err)
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

// Whatever fails at the store, and whenever, loses nothing and does nothing twice: the client
// sends the same again until it is answered.
func TestStoreThatFailsAnywhere(t *testing.T) {
	kinds := map[string]func(n int, l *line){
		"down": func(n int, l *line) {
			l.on(func(m int, _ string) error { return failAt(n, m, errors.New("connection refused")) })
		},
		"unknown, not done": func(n int, l *line) {
			l.on(func(m int, op string) error { return failAt(n, m, unknown(op)) })
		},
		"unknown, done": func(n int, l *line) {
			l.after = func(m int, op string) error { return failAt(n, m, unknown(op)) }
		},
		"down for a while": func(n int, l *line) {
			l.on(func(m int, _ string) error {
				if m >= n && m < n+7 {
					return errors.New("connection refused")
				}
				return nil
			})
		},
	}
	for kind, fail := range kinds {
		for _, args := range []string{`{"to":"Rome"}`, `{"to":"Rome","early":true}`} {
			failures := 0
			for n := range 25 {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					s := newShared(t, w.trip(nil))
					a := s.replica()
					fail(n, a.line)
					try := func(f func() (End, error)) End {
						for range 20 {
							end, err := f()
							if err == nil {
								return end
							}
							failures++
							require.ErrorIs(t, err, ErrLedger, "%s at %d", kind, n)
							time.Sleep(time.Second)
						}
						t.Fatalf("%s at %d: never answered", kind, n)
						return End{}
					}
					keyed := func(q *Request) { q.IdempotencyKey = "k" }
					first := try(func() (End, error) { return a.call(args, keyed) })
					second := try(func() (End, error) { return a.resume(first.Token, say("where", true)) })
					last := try(func() (End, error) { return a.resume(second.Token, say("pay", true)) })
					assert.Equal(t, "booked", last.Result.Content.Text())
					assert.ElementsMatch(t, []string{"hold", "charge"}, w.things(), "%s at %d", kind, n)
				})
			}
			if kind == "down" || kind == "down for a while" {
				assert.Positive(t, failures)
			}
		}
	}
}

func failAt(n, m int, err error) error {
	if n == m {
		return err
	}
	return nil
}

func unknown(op string) error {
	if op == "swap" {
		return ledger.ErrUnknown
	}
	return nil
}

// Repeated first calls with one key are one saga.
func TestIdempotencyKeys(t *testing.T) {
	for _, args := range []string{`{"to":"Rome"}`, `{"to":"Rome","early":true}`} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			s := newShared(t, w.trip(nil))
			a, b := s.replica(), s.replica()
			w.at = func(context.Context, string, bool) error { time.Sleep(time.Second); return nil }
			key := func(q *Request) { q.IdempotencyKey = "one" }
			answers := make([]string, 20)
			var ends [20]End
			var done sync.WaitGroup
			for i := range answers {
				done.Go(func() {
					r := []*replica{a, b}[i%2]
					end, err := r.call(args, key)
					if assert.NoError(t, err) {
						answers[i], ends[i] = told(t, end), end
					}
				})
			}
			done.Wait()
			assert.Len(t, slices.Compact(answers), 1)
			assert.LessOrEqual(t, len(w.calls), 1)
			_, err := a.call(`{"to":"Oslo"}`, key)
			require.ErrorIs(t, err, ErrKeyReused)
			other, err := a.call(args, func(q *Request) { q.IdempotencyKey = "two" })
			require.NoError(t, err)
			assert.NotEqual(t, answers[0], told(t, other))
			foreign, err := a.call(args, key, func(q *Request) { q.Principal = "bob" })
			require.NoError(t, err)
			assert.NotEqual(t, answers[0], told(t, foreign))

			// When it has gone on, the call leads to where it is.
			second, err := a.resume(ends[0].Token, say("where", true))
			require.NoError(t, err)
			again, err := b.call(args, key)
			require.NoError(t, err)
			assert.Equal(t, told(t, second), told(t, again))
			last, err := a.resume(second.Token, say("pay", true))
			require.NoError(t, err)
			time.Sleep(23 * time.Hour)
			_, err = s.store.Forget(t.Context(), 1000)
			require.NoError(t, err)
			again, err = b.call(args, key)
			require.NoError(t, err)
			assert.Equal(t, told(t, last), told(t, again))
		})
	}
}

// sagaOf returns the saga of a token, however old that is.
func sagaOf(t *testing.T, r *replica, token string) tokens.ID {
	t.Helper()
	x, _, err := r.Codec.OpenAnyTime(tokens.Binding{Purpose: "saga", Principal: "ann"}, time.Now(), token)
	require.NoError(t, err)
	return x.Claims.ID
}

// A worker that was paused beyond its lease begins no other effect when it goes on.
func TestPausedWorkersBeginNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		one, two := w.effect("one"), w.effect("two")
		where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
		s := newShared(t, saga.Flow[tripArgs, string]{Info: saga.Info{Name: "trip", Asks: []steps.Question{where}, Effects: []saga.Declared{one, two}}, Run: func(r *saga.Run, in tripArgs) (string, error) {
			if _, err := saga.Ask(r, where); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, one, in.To); err != nil {
				return "", err
			}
			_, err := saga.Do(r, two, in.To)
			return "done", err
		}})
		a, b := s.replica(), s.replica()
		first, err := a.call(`{"to":"Rome"}`)
		require.NoError(t, err)
		paused := make(chan struct{})
		begun := 0
		w.at = func(ctx context.Context, effect string, after bool) error {
			if ctx.Value(lineKey{}) != a.line {
				return nil
			}
			if begun++; effect == "one" && after {
				<-paused
			}
			return nil
		}
		a.line.on(func(_ int, op string) error {
			if op == "swap" && len(w.things()) > 0 {
				<-paused
			}
			return nil
		})
		var late End
		var done sync.WaitGroup
		done.Go(func() { late, err = a.resume(first.Token, say("where", true)) })
		synctest.Wait()
		end, err2 := b.resume(first.Token, say("where", true))
		require.NoError(t, err2)
		close(paused)
		done.Wait()
		require.NoError(t, err, "it tells what the other has recorded")
		assert.Equal(t, told(t, end), told(t, late))
		assert.Equal(t, 2, begun, "of the effect one, before and after")
		assert.Len(t, w.things(), 2)
	})
}

// A late client and a turn that was lost: what it did is found and undone.
func TestLateClientOfALostTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		first, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		w.at = func(_ context.Context, _ string, after bool) error {
			if after {
				a.line.die()
			}
			return nil
		}
		_, err = a.resume(second.Token, say("pay", true))
		require.Error(t, err)
		require.ElementsMatch(t, []string{"hold", "charge"}, w.things())
		w.at = nil
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
			w := newWorld()
			w.unwilling = map[string]bool{"hold": unwilling}
			s := newShared(t, w.trip(nil))
			a := s.replica()
			a.work(t)
			w.at = func(_ context.Context, effect string, after bool) error {
				if effect == "charge" && after {
					panic("oops")
				}
				return nil
			}
			q := Request{Policy: Held, Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "trip"), Arguments: json.RawMessage(`{"to":"Rome"}`)}
			_, err := a.Drive(a.context(), q, asked(func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
				return []steps.Answer{say(list[0].ID, true)}, nil
			}))
			require.ErrorAs(t, err, new(*engine.PanicError))
			if unwilling {
				assert.Equal(t, []string{"hold"}, w.things())
				w.mu.Lock()
				w.unwilling = nil
				w.mu.Unlock()
				time.Sleep(firstPause + time.Second)
			}
			assert.Empty(t, w.things())
		})
	}
}

// A turn that breaks off each time that it is taken is undone with what it did, as nobody
// will ever get further.
func TestTurnsThatAlwaysBreakAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a := s.replica()
		a.work(t)
		first, err := a.call(`{"to":"Rome"}`)
		require.NoError(t, err)
		w.at = func(_ context.Context, _ string, after bool) error {
			if after {
				panic("oops")
			}
			return nil
		}
		for range 3 {
			_, err = a.resume(first.Token, say("where", true))
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
		w := newWorld()
		s := newShared(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		b.work(t)
		synctest.Wait()
		first, err := a.call(`{"to":"Rome"}`)
		require.NoError(t, err)
		w.at = func(context.Context, string, bool) error { time.Sleep(8 * time.Second); return nil }
		var done sync.WaitGroup
		done.Go(func() {
			end, err := a.resume(first.Token, say("where", true))
			assert.NoError(t, err)
			assert.NotEmpty(t, end.Token)
		})
		time.Sleep(time.Second)
		book := records.New(s.store, a.Codec.Keyset, "here", 0)
		states := []records.State{}
		for waiting, err := range book.List(t.Context()) {
			require.NoError(t, err)
			states = append(states, waiting.State)
			require.NoError(t, book.UndoNow(t.Context(), waiting.Key))
		}
		assert.Equal(t, []records.State{records.Running}, states)
		done.Wait()
		time.Sleep(2 * leaseTime)
		assert.Empty(t, w.things())
		assert.Equal(t, []string{"hold", "undo hold"}, w.calls)
	})
}
