package durable_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// delivery asks, pays, which is irreversible, and asks again. If asked it says whether it is paid.
func (w *outside) delivery() saga.Definition {
	where, more := &steps.Form[tripForm]{ID: "where", Message: "There?"}, &steps.Form[tripForm]{ID: "more", Message: "More?"}
	pay := w.effect("pay")
	pay.Irreversible = true
	pay.Undo = func(context.Context, saga.Performed[string, string]) error {
		return saga.Final(fmt.Errorf("it is paid"))
	}
	return saga.Flow[tripArgs, string]{
		Info: saga.Info{Name: "trip", Asks: []steps.Question{where, more}, Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, in tripArgs) (string, error) {
			if _, err := saga.Ask(r, where); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, in.To); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, more)
			return "delivered", err
		},
	}
}

// A cancel that comes too late says so and leaves the saga as it was, with a ledger too: what cannot be
// undone any more can be brought to its end.
func TestACancelThatIsTooLateLeavesTheSagaAsItWas(t *testing.T) {
	late := func(t *testing.T, end turns.End, err error) {
		t.Helper()
		require.NoError(t, err)
		assert.Empty(t, end.Token)
		assert.True(t, end.Result.IsError)
		assert.Contains(t, end.Result.Content.Text(), "Not cancelled: it is too late.")
		assert.Equal(t, "pay", turns.UndoReport(end.Result).Final)
	}
	for name, play := range map[string]func(t *testing.T, w *outside, s *fleet, a, b *replica, first string) (second string){
		"with the newest token": func(t *testing.T, _ *outside, _ *fleet, a, b *replica, first string) string {
			end, err := a.resume(first, say("where", true))
			require.NoError(t, err)
			for _, r := range []*replica{a, b, a} {
				cancelled, err := r.cancel(end.Token)
				late(t, cancelled, err)
				assert.Greater(t, time.Until(r.onlyWaiting(t).Due), 5*time.Minute, "no worker looks at it before it is over")
			}
			return end.Token
		},
		"with an old token": func(t *testing.T, _ *outside, _ *fleet, a, b *replica, first string) string {
			end, err := a.resume(first, say("where", true))
			require.NoError(t, err)
			cancelled, err := b.cancel(first)
			late(t, cancelled, err)
			_, err = b.resume(first, say("where", false))
			spent(t, err)
			return end.Token
		},
		"after a response that was lost": func(t *testing.T, _ *outside, _ *fleet, a, b *replica, first string) string {
			_, err := a.resume(first, say("where", true))
			require.NoError(t, err)
			cancelled, err := b.cancel(first, say("where", true))
			late(t, cancelled, err)
			end, err := b.resume(first, say("where", true))
			require.NoError(t, err)
			return end.Token
		},
		"after a turn that was lost": func(t *testing.T, w *outside, _ *fleet, a, b *replica, first string) string {
			w.lose(t, a, first, say("where", true))
			cancelled, err := b.cancel(first)
			late(t, cancelled, err)
			_, err = b.resume(first, say("where", false))
			spent(t, err) // something was done with the other answer
			end, err := b.resume(first, say("where", true))
			require.NoError(t, err)
			return end.Token
		},
		"whose server dies": func(t *testing.T, _ *outside, _ *fleet, a, b *replica, first string) string {
			end, err := a.resume(first, say("where", true))
			require.NoError(t, err)
			b.work(t)
			a.line.on(func(_ int, op string) error { // after it has said that it cancels
				if op == "Write" {
					a.line.on(func(int, string) error { a.line.die(); return errTimeout })
				}
				return nil
			})
			_, err = a.cancel(end.Token)
			require.Error(t, err)
			time.Sleep(2 * leaseTime)
			return end.Token
		},
		"after a turn and a cancel that were lost": func(t *testing.T, w *outside, s *fleet, a, b *replica, first string) string {
			w.lose(t, a, first, say("where", true))
			time.Sleep(2 * leaseTime)
			c := s.replica()
			c.line.on(func(_ int, op string) error {
				if op == "Write" {
					c.line.on(func(int, string) error { c.line.die(); return errTimeout })
				}
				return nil
			})
			_, err := c.cancel(first)
			require.Error(t, err)
			b.work(t)
			time.Sleep(2 * leaseTime)
			_, err = b.resume(first, say("where", false))
			spent(t, err)
			end, err := b.resume(first, say("where", true))
			require.NoError(t, err)
			return end.Token
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				s := newFleet(t, w.delivery())
				a, b := s.replica(), s.replica()
				second := play(t, w, s, a, b, a.begin(t, `{"to":"Rome"}`).Token)
				last, err := b.resume(second, say("more", true))
				require.NoError(t, err)
				assert.Equal(t, "delivered", last.Result.Content.Text())
				assert.Equal(t, []string{"pay"}, w.things(), "once")
				gone, err := b.cancel(second)
				require.NoError(t, err)
				assert.Contains(t, gone.Result.Content.Text(), "The saga has ended:")
			})
		})
	}
	t.Run("and if nobody goes on, it ends when its time is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newOutside()
			s := newFleet(t, w.delivery())
			a := s.replica()
			a.work(t)
			first := a.begin(t, `{"to":"Rome"}`)
			end, err := a.resume(first.Token, say("where", true))
			require.NoError(t, err)
			cancelled, err := a.cancel(end.Token)
			late(t, cancelled, err)
			time.Sleep(time.Hour)
			gone, err := a.resume(end.Token, say("more", true))
			require.NoError(t, err)
			assert.NotEmpty(t, gone.Gone)
			assert.Empty(t, a.waiting(t))
			assert.Equal(t, []string{"pay"}, w.things())
		})
	})
}

// But a saga ends if something was undone before what is final was found, if it had ended before, or
// if its time is over: then it cannot go on.
func TestACancelThatIsTooLateEndsWhatCannotGoOn(t *testing.T) {
	final := func(w *outside, name string, undo func() error) *saga.Effect[string, string] {
		e := w.effect(name)
		e.Undo = func(context.Context, saga.Performed[string, string]) error { return undo() }
		return e
	}
	paid := func() error { return saga.Final(fmt.Errorf("it is paid")) }
	where, more := &steps.Form[tripForm]{ID: "where", Message: "There?"}, &steps.Form[tripForm]{ID: "more", Message: "More?"}
	for name, test := range map[string]struct {
		effects func(w *outside) []*saga.Effect[string, string]
		ends    bool // its turn ends it badly
		cancel  func(t *testing.T, a, b *replica, first, second string)
	}{
		"something is undone": {
			effects: func(w *outside) []*saga.Effect[string, string] {
				return []*saga.Effect[string, string]{final(w, "pay", paid), w.effect("ticket")}
			},
			cancel: func(t *testing.T, a, _ *replica, _, second string) {
				end, err := a.cancel(second)
				require.NoError(t, err)
				assert.Equal(t, []string{"ticket"}, turns.UndoReport(end.Result).Undone)
			},
		},
		"it has ended": {
			effects: func(w *outside) []*saga.Effect[string, string] {
				begun := time.Now()
				return []*saga.Effect[string, string]{final(w, "pay", func() error {
					if time.Since(begun) < 5*time.Minute {
						return errTimeout
					}
					return paid()
				})}
			},
			cancel: func(t *testing.T, a, _ *replica, _, second string) {
				end, err := a.cancel(second)
				require.NoError(t, err)
				assert.Equal(t, []string{"pay"}, turns.UndoReport(end.Result).Outstanding)
				time.Sleep(6 * time.Minute)
				end, err = a.cancel(second)
				require.NoError(t, err)
				assert.Equal(t, "pay", turns.UndoReport(end.Result).Final)
			},
		},
		"it has ended, and a worker finds that out": {
			effects: func(w *outside) []*saga.Effect[string, string] {
				begun := time.Now()
				return []*saga.Effect[string, string]{final(w, "pay", func() error {
					if time.Since(begun) < 5*time.Minute {
						return errTimeout
					}
					return paid()
				})}
			},
			cancel: func(t *testing.T, a, b *replica, _, second string) {
				end, err := a.cancel(second)
				require.NoError(t, err)
				assert.Equal(t, []string{"pay"}, turns.UndoReport(end.Result).Outstanding)
				b.work(t)
				time.Sleep(9 * time.Minute)
			},
		},
		"its time is over": {
			effects: func(w *outside) []*saga.Effect[string, string] {
				return []*saga.Effect[string, string]{final(w, "pay", paid)}
			},
			cancel: func(t *testing.T, a, _ *replica, _, second string) {
				time.Sleep(time.Hour)
				_, err := a.cancel(second)
				require.NoError(t, err)
			},
		},
		"its turn has ended it": {
			ends: true,
			effects: func(w *outside) []*saga.Effect[string, string] {
				return []*saga.Effect[string, string]{final(w, "pay", paid)}
			},
			cancel: func(t *testing.T, a, b *replica, first, _ string) {
				_, err := b.cancel(first)
				require.NoError(t, err)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				effects := test.effects(w)
				info := saga.Info{Name: "trip", Asks: []steps.Question{where, more}}
				for _, e := range effects {
					info.Effects = append(info.Effects, e)
				}
				s := newFleet(t, saga.Flow[tripArgs, string]{Info: info, Run: func(r *saga.Run, in tripArgs) (string, error) {
					if _, err := saga.Ask(r, where); err != nil {
						return "", err
					}
					for _, e := range effects {
						if _, err := saga.Do(r, e, in.To); err != nil {
							return "", err
						}
					}
					if test.ends {
						return "", saga.Failf("not today")
					}
					_, err := saga.Ask(r, more)
					return "done", err
				}})
				a, b := s.replica(), s.replica()
				if test.ends { // it dies as it has begun to undo
					n := 0
					a.line.after = func(_ int, op string) error {
						if op == "Write" {
							if n++; n == 2 {
								a.line.die()
							}
						}
						return nil
					}
				}
				first := a.begin(t, `{"to":"Rome"}`)
				end, err := a.resume(first.Token, say("where", true))
				require.Equal(t, test.ends, err != nil)
				test.cancel(t, a, b, first.Token, end.Token)
				assert.Empty(t, b.waiting(t))
				ended, err := s.store.List(t.Context(), store.Filter{Audience: "here", Statuses: []store.Status{store.Ended}}, store.Cursor{}, 10)
				require.NoError(t, err)
				require.Len(t, ended, 1)
				assert.Zero(t, ended[0].Wake)
			})
		})
	}
}
