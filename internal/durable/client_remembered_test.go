package durable_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Clocks that differ cost time, never a second effect or answer.
func TestClocksThatDiffer(t *testing.T) {
	for _, off := range []time.Duration{-40 * time.Second, 40 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, s := tripFleet(t)
			a := s.replica()
			b := s.replica(func(c *clientConfig) { c.Now = func() time.Time { return time.Now().Add(off) } })
			a.work(t)
			b.work(t)
			first := a.begin(t, `{"to":"Rome"}`)
			w.at = func(context.Context, string, bool) error { time.Sleep(8 * time.Second); return nil }
			var all sync.WaitGroup
			answers := make([]string, 10)
			for i := range answers {
				all.Go(func() {
					for range 10 { // as a client does
						end, err := []*replica{a, b}[i%2].resume(first.Token, say("where", true))
						if err == nil {
							answers[i] = told(t, end)
							return
						}
						require.NotErrorIs(t, err, tokens.ErrRejected)
					}
				})
			}
			all.Wait()
			require.NotEmpty(t, answers[0])
			assert.Len(t, slices.Compact(answers), 1)
			assert.Len(t, w.things(), 1)
			time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
			assert.Empty(t, w.things())
		})
	}
}

// Records survive the stages of a rotation.
func TestRotationWithALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		old := s.keys.Primary().ID
		call := func() turns.End {
			end, err := a.call(`{"to":"Rome","early":true}`, func(q *turns.Request) { q.IdempotencyKey = "k" })
			require.NoError(t, err)
			return end
		}
		first := call()
		keys, id, err := s.keys.Add(codec.XAES256GCM)
		require.NoError(t, err)
		for _, change := range []func() (*codec.Keyset, error){
			func() (*codec.Keyset, error) { return keys, nil },
			func() (*codec.Keyset, error) { return keys.Promote(id) },
		} {
			keys, err = change()
			require.NoError(t, err)
			s.keys = keys
			a.Codec.SetKeyset(keys)
			a = s.replica()
			assert.Equal(t, told(t, first), told(t, call()))
		}
		second, err := a.resume(first.Token, say("where", true))
		require.NoError(t, err)
		keys, err = keys.Disable(old)
		require.NoError(t, err)
		s.keys = keys
		a = s.replica()
		a.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		assert.Empty(t, w.things())
		end, err := a.resume(second.Token, say("pay", true))
		require.NoError(t, err)
		assert.Equal(t, tokens.ReasonExpired, end.Gone)
	})
}

// Servers of another audience, or with other tools, share a store and neither see nor disturb one another.
// Servers with other keys have to be of another audience: what they take and cannot read is left alone.
func TestStrangersShareAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a := s.replica()
		keyed := func(q *turns.Request) { q.IdempotencyKey = "k" }
		first := a.begin(t, `{"to":"Rome","early":true}`, keyed)
		other, err := codec.NewKeyset()
		require.NoError(t, err)
		for audience, keys := range map[string]*codec.Keyset{"there": s.keys, "elsewhere": other, "here": other} {
			sealer, err := tokens.New(keys, tokens.Options{Audience: audience})
			require.NoError(t, err)
			b := s.replica(func(c *clientConfig) { c.Codec = sealer })
			if audience != "here" {
				elsewhere, err := b.call(`{"to":"Oslo","early":true}`, keyed)
				require.NoError(t, err, audience)
				assert.NotEqual(t, first.Token, elsewhere.Token)
			}
			b.work(t)
			synctest.Wait()
		}
		none := newFleet(t, newOutside().trip(func(i *saga.Info) { i.Name = "other" }))
		none.store, none.keys = s.store, s.keys
		none.replica().work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
		assert.Equal(t, []string{"hold"}, w.things(), "theirs are undone, not this one")
		a.work(t)
		time.Sleep(60 * leaseTime) // of those who take it, it is chance who comes first
		assert.Empty(t, w.things())
	})
}

// A principal may have so many records and no more, others as many.
func TestLimitOfRecords(t *testing.T) {
	w, s := tripFleet(t)
	a := s.replica(func(c *clientConfig) { c.MaxSagas = 3 })
	for range 3 {
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
	}
	_, err := a.call(`{"to":"Rome","early":true}`)
	require.ErrorIs(t, err, turns.ErrLedgerFull)
	assert.Len(t, w.calls, 3, "nothing is done that cannot be remembered")
	_, err = a.call(`{"to":"Rome","early":true}`, func(q *turns.Request) { q.Principal = "bob" })
	require.NoError(t, err)
	_, err = a.call(`{"to":"Rome"}`)
	require.NoError(t, err, "which needs no record")

	// Sagas that are over do not count.
	synctest.Test(t, func(t *testing.T) {
		s := newFleet(t, newOutside().trip(nil))
		a := s.replica(func(c *clientConfig) { c.MaxSagas = 3 })
		for range 10 {
			first := a.begin(t, `{"to":"Rome","early":true}`)
			_, err := a.cancel(first.Token)
			require.NoError(t, err)
			time.Sleep(20 * time.Second) // counts are some seconds old
		}
	})

	// Nor do calls that came with a key, though they are known for a day.
	synctest.Test(t, func(t *testing.T) {
		s := newFleet(t, newOutside().trip(nil))
		a := s.replica(func(c *clientConfig) { c.MaxSagas = 3 })
		for i := range 10 {
			first := a.begin(t, `{"to":"Rome"}`, func(q *turns.Request) { q.IdempotencyKey = fmt.Sprint("key", i) })
			_, err := a.cancel(first.Token)
			require.NoError(t, err)
			time.Sleep(20 * time.Second)
		}
		for i := range 4 {
			_, err := a.call(`{"to":"Rome"}`, func(q *turns.Request) { q.IdempotencyKey = fmt.Sprint("more", i) })
			if i < 3 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, turns.ErrLedgerFull, "their sagas do")
			}
		}
	})
}

// A tool that demands it is refused by a server that cannot remember.
func TestSingleUseIsRequired(t *testing.T) {
	w := newOutside()
	s := newFleet(t, w.trip(func(i *saga.Info) { i.SingleUse, i.Effects = saga.SingleUseRequired, nil }))
	tools, err := engine.NewRegistry(s.tools...)
	require.NoError(t, err)
	err = turns.NeedLedger(tools)
	var wrong *saga.DefinitionError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "trip", wrong.Tool)

	ask := &steps.Form[tripForm]{ID: "where", Message: "There?"}
	var runs atomic.Int32
	s = newFleet(t, saga.Flow[struct{}, string]{Info: saga.Info{Name: "trip", Asks: []steps.Question{ask}, SingleUse: saga.SingleUseRequired}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		form, err := saga.Ask(r, ask)
		runs.Add(1)
		return fmt.Sprint(form.OK), err
	}})
	a := s.replica()
	first := a.begin(t, `{}`)
	assert.Empty(t, a.line.ops, "a first turn that does nothing leaves no record")
	var all sync.WaitGroup
	ends := make([]string, 20)
	for i := range ends {
		all.Go(func() {
			end, err := a.resume(first.Token, say("where", i%2 == 0))
			if err == nil {
				ends[i] = end.Result.Content.Text()
			} else {
				spent(t, err)
			}
		})
	}
	all.Wait()
	slices.Sort(ends)
	assert.Equal(t, 10, strings.Count(strings.Join(ends, ","), "true")+strings.Count(strings.Join(ends, ","), "false"))
	assert.Len(t, slices.Compact(ends), 2, "one answer, and refusals")
}

// A turn that ends badly undoes what earlier ones did, so it is claimed as one that acts.
func TestUndoingTurnsAreClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome","early":true}`)
		decline := steps.Answer{StepID: "where", Result: []byte(`{"action":"decline"}`)}
		b.line.on(func(_ int, op string) error {
			if op == "Write" { // while it has begun the other turn
				b.line.on(nil)
				end, err := a.resume(first.Token, say("where", true))
				assert.NoError(t, err)
				assert.NotEmpty(t, end.Token)
			}
			return nil
		})
		_, err := b.resume(first.Token, decline)
		spent(t, err)
		assert.Equal(t, []string{"hold"}, w.calls)
	})
}

// A token of a saga that began without a ledger, or before it, goes on.
func TestLedgerThatComesLater(t *testing.T) {
	_, s := tripFleet(t)
	without := s.replica(func(c *clientConfig) { c.forgets = true })
	first := without.begin(t, `{"to":"Rome"}`)
	second, err := without.resume(first.Token, say("where", true))
	require.NoError(t, err)
	a := s.replica()
	last, err := a.resume(second.Token, say("pay", true))
	require.NoError(t, err)
	assert.Equal(t, "booked", last.Result.Content.Text())
	_, err = a.resume(first.Token, say("where", true))
	spent(t, err)
}
