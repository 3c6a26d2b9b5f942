package durable_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A worker that dies in a turn is replaced when its lease is over, wherever it died, and what
// it did is found by the same key.
func TestDeadWorkersAreReplaced(t *testing.T) {
	for name, after := range map[string]bool{"before the effect": false, "after the effect": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := tripFleet(t)
				a, b := s.replica(), s.replica()
				first := a.begin(t, `{"to":"Rome"}`)
				w.at = func(ctx context.Context, _ string, now bool) error {
					if l := ctx.Value(lineKey{}); l == a.line && now == after {
						a.line.die()
					}
					return nil
				}
				_, err := a.resume(first.Token, say("where", true))
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

// A process that stood still for a minute, while writes were under way, does not take its store for a slow one: if it
// dies soon after, its turns are taken when a lease is over.
func TestProcessesThatStoodStillAndDie(t *testing.T) {
	for name, from := range map[string]time.Duration{"in the first writes": 5 * time.Millisecond, "after one": 13 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := tripFleet(t)
				a, b := s.replica(), s.replica()
				var list []string
				for range 4 {
					list = append(list, a.begin(t, `{"to":"Rome"}`).Token)
				}
				began := time.Now()
				takes := func(d time.Duration) {
					time.Sleep(d)
					if now := time.Since(began); now >= from && now < time.Minute {
						time.Sleep(time.Minute - now)
					}
				}
				a.line.after = func(int, string) error { takes(10 * time.Millisecond); return nil }
				w.at = func(_ context.Context, _ string, after bool) error {
					if takes(100 * time.Millisecond); after {
						a.line.die()
					}
					return nil
				}
				var all sync.WaitGroup
				for i, token := range list {
					all.Go(func() {
						time.Sleep(time.Duration(i) * 4 * time.Millisecond)
						_, err := a.resume(token, say("where", true))
						assert.Error(t, err)
					})
				}
				all.Wait()
				w.at = nil
				died := time.Now()
				assert.Greater(t, died.Sub(began), time.Minute)
				for _, token := range list {
					_, err := b.resume(token, say("where", true))
					require.NoError(t, err)
				}
				assert.LessOrEqual(t, time.Since(died), leaseTime+time.Second)
			})
		})
	}
}

// A worker that was only slow cannot record any more. It tells what was recorded, and does
// not begin another effect.
func TestSlowWorkersAreFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		paused := make(chan struct{})
		w.at = func(ctx context.Context, effect string, after bool) error {
			if ctx.Value(lineKey{}) == a.line && after {
				<-paused // and its heart stands still
			}
			return nil
		}
		a.line.on(func(_ int, op string) error {
			if (op == "Write" || op == "Renew") && len(w.things()) > 0 {
				<-paused
			}
			return nil
		})
		var slow turns.End
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
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		b.work(t)
		first := a.begin(t, `{"to":"Rome"}`)
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

// A worker that was paused beyond its lease begins no other effect when it goes on.
func TestPausedWorkersBeginNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		one, two := w.effect("one"), w.effect("two")
		where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
		s := newFleet(t, saga.Flow[tripArgs, string]{Info: saga.Info{Name: "trip", Asks: []steps.Question{where}, Effects: []saga.Declared{one, two}}, Run: func(r *saga.Run, in tripArgs) (string, error) {
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
		first := a.begin(t, `{"to":"Rome"}`)
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
			if (op == "Write" || op == "Renew") && len(w.things()) > 0 {
				<-paused
			}
			return nil
		})
		var late turns.End
		var err error
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

// A flow whose turn is taken over is told the time that it was told before, as effects depend
// on it.
func TestTimeOfATurnThatIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		hold := w.effect("hold")
		var inputs []string
		do := hold.Do
		hold.Do = func(ctx context.Context, key saga.Key, in string) (string, error) {
			inputs = append(inputs, in)
			return do(ctx, key, in)
		}
		where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
		s := newFleet(t, saga.Flow[tripArgs, string]{Info: saga.Info{Name: "trip", Asks: []steps.Question{where}, Effects: []saga.Declared{hold}}, Run: func(r *saga.Run, in tripArgs) (string, error) {
			if _, err := saga.Ask(r, where); err != nil {
				return "", err
			}
			_, err := saga.Do(r, hold, r.Now().String())
			return "done", err
		}})
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		w.at = func(ctx context.Context, _ string, after bool) error {
			if after && ctx.Value(lineKey{}) == a.line {
				a.line.die()
			}
			return nil
		}
		_, err := a.resume(first.Token, say("where", true))
		require.Error(t, err)
		time.Sleep(time.Minute)
		_, err = b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		require.Len(t, inputs, 2)
		assert.Equal(t, inputs[0], inputs[1])
	})
}

// Servers of one ledger may have different leases, as while it is being changed. Who waits for a turn
// waits for as long as the server does not show itself that has the turn, by the lease of that one.
func TestLeasesThatDiffer(t *testing.T) {
	leases := func(d time.Duration) func(*clientConfig) { return func(c *clientConfig) { c.Lease = d } }
	for name, c := range map[string]struct{ own, other time.Duration }{
		"who waits has a shorter one": {own: 4 * leaseTime, other: leaseTime / 5},
		"who waits has the usual one": {own: 4 * leaseTime},
		"who waits has a longer one":  {own: leaseTime / 5, other: 4 * leaseTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := tripFleet(t)
				a, b := s.replica(leases(c.own)), s.replica(leases(c.other))
				first := a.begin(t, `{"to":"Rome"}`)
				w.at = func(context.Context, string, bool) error { time.Sleep(c.own / 2); return nil }
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
			synctest.Test(t, func(t *testing.T) {
				w, s := tripFleet(t)
				a, b := s.replica(leases(c.own)), s.replica(leases(c.other))
				first := a.begin(t, `{"to":"Rome"}`)
				w.lose(t, a, first.Token, say("where", true))
				begun := time.Now()
				_, err := b.resume(first.Token, say("where", true))
				require.NoError(t, err)
				assert.Equal(t, c.own, time.Since(begun).Round(time.Second))
			})
		})
	}
}

// A turn whose code ends its goroutine, as a test that fails does, is lost when its lease is over: its process does
// not renew that for ever.
func TestATurnThatEndsItsGoroutineIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(func(c *clientConfig) { c.Timeout = 0 }), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		w.at = func(ctx context.Context, _ string, _ bool) error {
			if ctx.Value(lineKey{}) == a.line {
				runtime.Goexit()
			}
			return nil
		}
		go func() { _, _ = a.resume(first.Token, say("where", true)) }()
		synctest.Wait()
		begun := time.Now()
		_, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		assert.Equal(t, leaseTime, time.Since(begun).Round(time.Second))
		assert.Zero(t, a.line.count("Renew"))
	})
}
