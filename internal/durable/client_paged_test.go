package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// pager holds a room (early, or once it was asked whether to), gives a part of its result
// before and after, and pays.
func (w *outside) pager() saga.Definition {
	where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
	hold, charge := w.effect("hold"), w.effect("charge")
	info := saga.Info{Name: "pager", Asks: []steps.Question{where}, Effects: []saga.Declared{hold, charge}, Yields: true}
	return saga.Flow[tripArgs, string]{Info: info, Run: func(r *saga.Run, in tripArgs) (string, error) {
		if in.Early {
			if _, err := saga.Do(r, hold, in.To); err != nil {
				return "", err
			}
		}
		if err := r.Yield(content.Textf("rooms")); err != nil {
			return "", err
		}
		if _, err := saga.Ask(r, where); err != nil {
			return "", err
		}
		if !in.Early {
			if _, err := saga.Do(r, hold, in.To); err != nil {
				return "", err
			}
		}
		if in.To != "Oslo" {
			if err := r.Yield(content.Textf("held")); err != nil {
				return "", err
			}
		}
		if _, err := saga.Do(r, charge, in.To); err != nil {
			return "", err
		}
		return "paid", nil
	}}
}

const earlyArgs, lateArgs = `{"to":"Rome","early":true}`, `{"to":"Rome"}`

// page drives a held saga to its next part.
func (r *replica) page(args, token string, client func(context.Context, []steps.Step) ([]steps.Answer, error), change ...func(*turns.Request)) (turns.End, error) {
	q := turns.Request{Policy: turns.Held, Parts: true, Principal: "ann", Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "pager"), Arguments: json.RawMessage(args)}
	if token != "" {
		q.Policy, q.Asks, q.Token = turns.Paged, turns.Asked, token
	}
	for _, f := range change {
		f(&q)
	}
	return r.Drive(r.context(), q, asked(client))
}

func willing(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
	return []steps.Answer{say(list[0].ID, true)}, nil
}

// The token of a saga that is held otherwise goes out with a part of its result. From then on
// the saga is as one whose token the client carries.
func TestPages(t *testing.T) {
	for _, args := range []string{earlyArgs, lateArgs} {
		synctest.Test(t, func(t *testing.T) {
			w := newOutside()
			s := newFleet(t, w.pager())
			a, b := s.replica(), s.replica()
			first, err := a.page(args, "", willing)
			require.NoError(t, err)
			assert.Equal(t, "rooms", first.Yielded.Text())
			assert.Equal(t, turns.Paged, first.Policy)
			assert.Equal(t, time.Now().Add(tokens.DefaultTTL), first.Expires)
			second, err := a.page(args, first.Token, willing)
			require.NoError(t, err)
			assert.Equal(t, "held", second.Yielded.Text())
			end, err := b.page(args, second.Token, willing)
			require.NoError(t, err)
			assert.Equal(t, "paid", end.Result.Content.Text())
			assert.Equal(t, []string{"hold", "charge"}, w.calls)

			// Its last token is good for the same answer; those before it are spent, for as long as
			// they live, though nobody has a token of the turns between.
			again, err := b.page(args, second.Token, willing)
			require.NoError(t, err)
			assert.Equal(t, told(t, end), told(t, again))
			for range 9 {
				_, err = s.store.Forget(t.Context(), 10)
				require.NoError(t, err)
				_, err = b.page(args, first.Token, willing)
				spent(t, err)
				time.Sleep(time.Minute)
			}
			assert.Len(t, w.calls, 2)
		})
	}
}

// A saga that ends in the request that has asked is remembered for as long as the token lives
// from which it went on.
func TestPagesThatEndHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.pager())
		a := s.replica()
		const args = `{"to":"Oslo"}`
		first, err := a.page(args, "", willing)
		require.NoError(t, err)
		end, err := a.page(args, first.Token, willing)
		require.NoError(t, err)
		for range 9 {
			_, err = s.store.Forget(t.Context(), 10)
			require.NoError(t, err)
			again, err := a.page(args, first.Token, willing)
			require.NoError(t, err)
			assert.Equal(t, told(t, end), told(t, again))
			time.Sleep(time.Minute)
		}
		assert.Equal(t, []string{"hold", "charge"}, w.calls)
	})
}

// What nobody comes back for is undone, and who comes late is told so.
func TestPagesThatAreAbandoned(t *testing.T) {
	for _, args := range []string{earlyArgs, lateArgs} {
		synctest.Test(t, func(t *testing.T) {
			w := newOutside()
			s := newFleet(t, w.pager())
			a := s.replica()
			a.work(t)
			end, err := a.page(args, "", willing)
			require.NoError(t, err)
			if args == lateArgs {
				end, err = a.page(args, end.Token, willing)
				require.NoError(t, err)
			}
			assert.Equal(t, []string{"hold"}, w.things())
			time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
			assert.Empty(t, w.things())
			late, err := a.page(args, end.Token, willing)
			require.NoError(t, err)
			assert.Equal(t, tokens.ReasonExpired, late.Gone)
		})
	}
}

// Who has a part of its result has the saga: a request that is left while it asks, or whose process dies, leaves it
// to be continued from the part, and only one that is cancelled, or that nobody comes back for, is undone.
func TestPagesWhoseClientGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.pager())
		a, b := s.replica(), s.replica()
		b.work(t)
		left := func(context.Context, []steps.Step) ([]steps.Answer, error) { return nil, turns.ErrGone }
		first, err := a.page(earlyArgs, "", willing)
		require.NoError(t, err)
		_, err = a.page(earlyArgs, first.Token, left)
		require.ErrorIs(t, err, turns.ErrGone)
		assert.Equal(t, []string{"hold"}, w.things())
		second, err := b.page(earlyArgs, first.Token, willing)
		require.NoError(t, err)
		assert.Equal(t, "held", second.Yielded.Text())

		wanted := errors.New("cancelled")
		ctx, cancel := context.WithCancelCause(a.context())
		q := turns.Request{Policy: turns.Paged, Asks: turns.Asked, Token: second.Token, Parts: true, Principal: "ann", Client: steps.AllFeatures(), Arguments: json.RawMessage(earlyArgs), Unwanted: wanted}
		w.at = func(ctx context.Context, _ string, undo bool) error {
			if undo {
				return nil
			}
			cancel(wanted)
			return context.Cause(ctx)
		}
		_, err = a.Drive(ctx, q, asked(willing))
		require.ErrorIs(t, err, wanted)
		assert.Empty(t, w.things())
		_, err = b.page(earlyArgs, second.Token, willing)
		spent(t, err)
		w.at = nil

		first, err = a.page(earlyArgs, "", willing)
		require.NoError(t, err)
		_, err = a.page(earlyArgs, first.Token, func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
			a.line.die()
			return []steps.Answer{say(list[0].ID, true)}, nil
		})
		require.Error(t, err)
		assert.Equal(t, []string{"hold"}, w.things())
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		assert.Empty(t, w.things())
		late, err := b.page(earlyArgs, first.Token, willing)
		require.NoError(t, err)
		assert.Equal(t, tokens.ReasonExpired, late.Gone, "its client is told what has become of it")
	})
}

// A turn that breaks off can be taken again from the part before it.
func TestPagesThatBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.pager())
		a := s.replica()
		first, err := a.page(earlyArgs, "", willing)
		require.NoError(t, err)
		second, err := a.page(earlyArgs, first.Token, willing)
		require.NoError(t, err)
		w.at = func(context.Context, string, bool) error { panic("oops") }
		_, err = a.page(earlyArgs, second.Token, willing)
		require.ErrorAs(t, err, new(*engine.PanicError))
		assert.Equal(t, []string{"hold"}, w.things(), "it is not undone: the client has the token")
		w.at = nil
		end, err := a.page(earlyArgs, second.Token, willing)
		require.NoError(t, err)
		assert.Equal(t, "paid", end.Result.Content.Text())
	})
}

// Two requests with one token get one answer.
func TestPagesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.pager())
		a, b := s.replica(), s.replica()
		first, err := a.page(lateArgs, "", willing)
		require.NoError(t, err)
		var all sync.WaitGroup
		var ends [2]turns.End
		for i, r := range []*replica{a, b} {
			all.Go(func() {
				var err error
				ends[i], err = r.page(lateArgs, first.Token, willing)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, told(t, ends[0]), told(t, ends[1]))
		assert.Equal(t, []string{"hold"}, w.calls)
	})
}

// A first call with a key is known again when it has given a part, as long as that is all.
func TestPagesWithAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.pager())
		a, b := s.replica(), s.replica()
		key := func(q *turns.Request) { q.IdempotencyKey = "k" }
		first, err := a.page(earlyArgs, "", willing, key)
		require.NoError(t, err)
		again, err := b.page(earlyArgs, "", willing, key)
		require.NoError(t, err)
		assert.Equal(t, told(t, first), told(t, again))
		assert.Equal(t, []string{"hold"}, w.calls)
	})
}

// A saga that goes on by one protocol does not go on by another meanwhile, whose clients could
// not use its token.
func TestPagesOfTwoProtocols(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.pager())
		a := s.replica()
		first, err := a.page(earlyArgs, "", willing)
		require.NoError(t, err)
		q := turns.Request{Policy: turns.Paged, Asks: turns.Resent, Parts: true, Principal: "ann", Client: steps.AllFeatures(), Token: first.Token, Arguments: json.RawMessage(earlyArgs)}
		round, err := a.Resume(a.context(), q)
		require.NoError(t, err)
		assert.Equal(t, turns.Resent, round.Policy)
		require.Len(t, round.Steps, 1)
		_, err = a.page(earlyArgs, first.Token, willing)
		spent(t, err)
		q.Policy, q.Asks, q.Token, q.Answers = turns.Resent, turns.Policy{}, round.Token, []steps.Answer{say("where", true)}
		second, err := a.Resume(a.context(), q)
		require.NoError(t, err)
		assert.Equal(t, turns.Paged, second.Policy)
		end, err := a.page(earlyArgs, second.Token, willing)
		require.NoError(t, err)
		assert.Equal(t, "paid", end.Result.Content.Text())
	})
}
