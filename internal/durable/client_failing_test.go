package durable_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
					w, s := tripFleet(t)
					a := s.replica()
					fail(n, a.line)
					try := func(f func() (turns.End, error)) turns.End {
						for range 20 {
							end, err := f()
							if err == nil {
								return end
							}
							failures++
							require.ErrorIs(t, err, turns.ErrLedger, "%s at %d", kind, n)
							time.Sleep(time.Second)
						}
						t.Fatalf("%s at %d: never answered", kind, n)
						return turns.End{}
					}
					keyed := func(q *turns.Request) { q.IdempotencyKey = "k" }
					first := try(func() (turns.End, error) { return a.call(args, keyed) })
					second := try(func() (turns.End, error) { return a.resume(first.Token, say("where", true)) })
					last := try(func() (turns.End, error) { return a.resume(second.Token, say("pay", true)) })
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
	if op == "Write" {
		return store.ErrUnknown
	}
	return nil
}

// Repeated first calls with one key are one saga.
func TestIdempotencyKeys(t *testing.T) {
	for _, args := range []string{`{"to":"Rome"}`, `{"to":"Rome","early":true}`} {
		synctest.Test(t, func(t *testing.T) {
			w, s := tripFleet(t)
			a, b := s.replica(), s.replica()
			w.at = func(context.Context, string, bool) error { time.Sleep(time.Second); return nil }
			key := func(q *turns.Request) { q.IdempotencyKey = "one" }
			answers := make([]string, 20)
			var ends [20]turns.End
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
			require.ErrorIs(t, err, turns.ErrKeyReused)
			other, err := a.call(args, func(q *turns.Request) { q.IdempotencyKey = "two" })
			require.NoError(t, err)
			assert.NotEqual(t, answers[0], told(t, other))
			foreign, err := a.call(args, key, func(q *turns.Request) { q.Principal = "bob" })
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

// A first turn that could not be recorded was not answered, so it is undone, and the client's
// next call is another saga.
func TestFirstTurnThatIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		a.work(t)
		synctest.Wait()
		a.line.on(func(_ int, op string) error {
			if op == "Write" && len(w.things()) > 0 {
				return errors.New("connection refused")
			}
			return nil
		})
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.ErrorIs(t, err, turns.ErrLedger)
		a.line.on(nil)
		first := a.begin(t, `{"to":"Rome","early":true}`)
		assert.Len(t, w.things(), 2)
		time.Sleep(leaseTime + time.Second)
		assert.Len(t, w.things(), 1)
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		_, err = a.resume(second.Token, say("pay", true))
		require.NoError(t, err)
	})
}
