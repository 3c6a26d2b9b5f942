package durable_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A server whose clock differs from those of others by more than a lease, but no more than is
// allowed, finishes its turns: nobody takes them while it is at work.
func TestTurnsOfServersWhoseClocksDiffer(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": -tokens.DefaultSkew + time.Second, "ahead": tokens.DefaultSkew - time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				s := newFleet(t, w.trip(nil))
				a := s.replica(func(c *clientConfig) { c.Now = func() time.Time { return time.Now().Add(off) } })
				b := s.replica()
				b.work(t)
				w.at = func(context.Context, string, bool) error { time.Sleep(leaseTime); return nil }
				first, err := a.call(`{"to":"Rome","early":true}`)
				require.NoError(t, err, s.logged())
				assert.Equal(t, []string{"hold"}, w.calls)
				done := make(chan error)
				go func() {
					_, err := a.resume(first.Token, say("where", true))
					done <- err
				}()
				require.NoError(t, <-done)
				last, err := a.call(`{"to":"Rome"}`)
				require.NoError(t, err)
				go func() {
					_, err := a.resume(last.Token, say("where", true))
					done <- err
				}()
				synctest.Wait()
				begun := time.Now()
				again, err := b.resume(last.Token, say("where", true))
				require.NoError(t, err)
				require.NoError(t, <-done)
				assert.Equal(t, 2*leaseTime, time.Since(begun), "it has waited")
				assert.NotEmpty(t, again.Token)
				assert.Equal(t, []string{"hold", "hold"}, w.calls)
			})
		})
	}
}

// A server whose clock is set while a turn is under way, by more than a lease, neither takes that turn
// nor lets others take it.
func TestClocksThatAreSetDuringATurn(t *testing.T) {
	for name, set := range map[string]struct {
		own, other time.Duration
	}{
		"of who waits, ahead":    {other: tokens.DefaultSkew},
		"of who waits, back":     {other: -tokens.DefaultSkew},
		"of who acts, ahead":     {own: tokens.DefaultSkew},
		"of who acts, back":      {own: -tokens.DefaultSkew},
		"of both, apart":         {own: -tokens.DefaultSkew / 2, other: tokens.DefaultSkew / 2},
		"of both, and crosswise": {own: tokens.DefaultSkew / 2, other: -tokens.DefaultSkew / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := tripFleet(t)
				var own, other atomic.Int64
				shows := func(off *atomic.Int64) func(*clientConfig) {
					return func(c *clientConfig) { c.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) } }
				}
				a, b := s.replica(shows(&own)), s.replica(shows(&other))
				for _, r := range []*replica{a, b} { // both know the store's clock from now on
					first := r.begin(t, `{"to":"Oslo"}`)
					_, err := r.resume(first.Token, say("where", true))
					require.NoError(t, err)
				}
				w.calls = nil
				w.at = func(context.Context, string, bool) error { time.Sleep(2 * leaseTime); return nil }
				first := a.begin(t, `{"to":"Rome"}`)
				done := make(chan error)
				go func() {
					_, err := a.resume(first.Token, say("where", true))
					done <- err
				}()
				synctest.Wait()
				own.Store(int64(set.own))
				other.Store(int64(set.other))
				time.Sleep(leaseTime / 2)
				b.work(t)
				end, err := b.resume(first.Token, say("where", true))
				require.NoError(t, err, s.logged())
				require.NoError(t, <-done)
				assert.NotEmpty(t, end.Token)
				assert.Equal(t, []string{"hold"}, w.calls)
			})
		})
	}
}

// Who comes too late with a token of a saga that had done nothing then, but whose turn was lost,
// is told what became of it, as long as that is known.
func TestEndsAreToldToWhoComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.trip(nil))
		a, b := s.replica(), s.replica()
		stop := b.work(t)
		lost, err := a.call(`{"to":"Rome"}`)
		require.NoError(t, err)
		idle, err := a.call(`{"to":"Oslo"}`)
		require.NoError(t, err)
		w.dies(a, "hold")
		_, err = a.resume(lost.Token, say("where", true))
		require.Error(t, err)
		w.mu.Lock()
		w.at = nil
		w.mu.Unlock()
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
		require.Empty(t, w.things())
		for _, answers := range [][]steps.Answer{{say("where", true)}, {say("where", false)}} {
			end, err := b.resume(lost.Token, answers...)
			require.NoError(t, err)
			assert.Equal(t, tokens.ReasonExpired, end.Gone)
			assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
		}
		end, err := b.cancel(lost.Token)
		require.NoError(t, err)
		assert.Equal(t, []string{"hold"}, turns.UndoReport(end.Result).Undone)
		for _, try := range []func(string, ...steps.Answer) (turns.End, error){b.resume, b.cancel} {
			_, err = try(idle.Token, say("where", true))
			var rejected *tokens.Rejected
			require.ErrorAs(t, err, &rejected, "nothing is known of that")
			assert.Equal(t, tokens.ReasonExpired, rejected.Reason)
		}
		stop()
		time.Sleep(turns.DefaultUndoGrace)
		s.forget()
		_, err = b.resume(lost.Token, say("where", true))
		require.ErrorIs(t, err, tokens.ErrRejected)
	})
}

// A request that waits for another one that takes its turn, for as long as it may, is told to come
// back: nothing has failed.
func TestWaitingForATurnThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.trip(nil))
		a := s.replica(func(c *clientConfig) { c.Timeout = time.Hour })
		b := s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		w.at = func(context.Context, string, bool) error { time.Sleep(80 * time.Second); return nil }
		done := make(chan error)
		go func() {
			_, err := a.resume(first.Token, say("where", true))
			done <- err
		}()
		synctest.Wait()
		_, err := b.resume(first.Token, say("where", true))
		require.ErrorIs(t, err, turns.ErrUnderWay)
		_, err = b.cancel(first.Token)
		require.ErrorIs(t, err, turns.ErrUnderWay)
		require.NoError(t, <-done)
		end, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		assert.NotEmpty(t, end.Token)

		go func() {
			_, err := a.call(`{"to":"Rome","early":true}`, func(q *turns.Request) { q.IdempotencyKey = "k" })
			done <- err
		}()
		synctest.Wait()
		_, err = b.call(`{"to":"Rome","early":true}`, func(q *turns.Request) { q.IdempotencyKey = "k" })
		require.ErrorIs(t, err, turns.ErrUnderWay)
		require.NoError(t, <-done)
	})
}

// A task that is begun before the store's clock was heard has its time by the process's.
func TestTheProcessHasAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := func() time.Time { return time.Now().AddDate(26, 0, 0) }
		s := newFleet(t, newOutside().trip(func(i *saga.Info) { i.Tasks = saga.Tasks{Mode: saga.TasksOptional, TTL: time.Hour} }))
		s.store = store.NewMemory(now)
		a := s.replica(func(c *clientConfig) { c.Now = now })
		core, err := durable.New(durable.Config{Turns: a.Runner, Store: s.store})
		require.NoError(t, err)
		a.core = core
		q := turns.Request{Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "trip"), Arguments: []byte(`{"to":"Rome"}`)}
		task, err := core.Start(t.Context(), tasks.Start{Request: q, AtOnce: true})
		require.NoError(t, err)
		a.work(t)
		time.Sleep(59 * time.Minute)
		task, err = core.Get(t.Context(), "ann", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.InputRequired, task.Status)
	})
}

// A server whose clock is ahead of the store's asks it for what is due no more often than others.
func TestAClockThatIsAheadAsksNoMoreOften(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.store = store.NewMemory(func() time.Time { return time.Now().Add(-time.Minute) })
		napping := saga.Machine[none, none]{
			Info:  saga.Info{Name: "naps", Tasks: optional},
			Start: func(t *turn) (saga.Next, error) { return t.Sleep(30*time.Second, "end") },
			Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
		}
		a := r.manager(nil, napping)
		stop := r.work(a)
		id := r.start(a, call(a, "naps", "")).ID
		time.Sleep(time.Second)
		stop()
		var takes atomic.Int32
		counted := &storetest.Intercept{Store: r.store, Around: func(_ context.Context, c storetest.Call, next func() error) error {
			if c.Method == "Take" && takes.Add(1) > 1000 {
				time.Sleep(time.Second) // else the time stands still
			}
			return next()
		}}
		b := r.manager(func(c *durable.Config) { c.Store = counted }, napping)
		r.work(b)
		time.Sleep(5 * time.Second)
		assert.Less(t, takes.Load(), int32(300))
		r.until(b, id, tasks.Completed)
	})
}
