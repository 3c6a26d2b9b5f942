package durable_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// Who drives a saga within one request writes no more than it takes to undo it if the process
// dies, and leaves nothing behind.
func TestHeldSagas(t *testing.T) {
	client := func(ctx context.Context, list []steps.Step) ([]steps.Answer, error) {
		return []steps.Answer{say(list[0].ID, true)}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		q := turns.Request{Policy: turns.Held, Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "trip"), Arguments: json.RawMessage(`{"to":"Rome"}`)}
		out, err := a.Drive(a.context(), q, asked(client))
		require.NoError(t, err)
		assert.Equal(t, "booked", out.Result.Content.Text())
		assert.Equal(t, 4, a.line.count("Write"), "claims and ends of the two turns that act")
		time.Sleep(time.Hour)
		n, err := s.store.Forget(t.Context(), 10)
		require.NoError(t, err)
		assert.Equal(t, 1, n)

		// A client that is gone: undone at once.
		gone := func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
			if list[0].ID == "pay" {
				return nil, turns.ErrGone
			}
			return []steps.Answer{say(list[0].ID, true)}, nil
		}
		w.done = map[saga.Key]string{}
		_, err = a.Drive(a.context(), q, asked(gone))
		require.ErrorIs(t, err, turns.ErrGone)
		assert.Empty(t, w.things())

		// A process that dies: undone by another.
		dies := func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
			if list[0].ID == "pay" {
				a.line.die()
			}
			return []steps.Answer{say(list[0].ID, true)}, nil
		}
		_, err = a.Drive(a.context(), q, asked(dies))
		require.Error(t, err)
		assert.Len(t, w.things(), 1)
		b.work(t)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
		assert.Empty(t, w.things())
	})
}

// A call with a key that was driven within a request is driven once.
func TestHeldCallsWithAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		q := turns.Request{Policy: turns.Held, Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "trip"), Arguments: json.RawMessage(`{"to":"Rome"}`), IdempotencyKey: "k"}
		asks := 0
		client := func(ctx context.Context, list []steps.Step) ([]steps.Answer, error) {
			asks++
			time.Sleep(10 * time.Second)
			return []steps.Answer{say(list[0].ID, true)}, ctx.Err()
		}
		var all sync.WaitGroup
		for _, r := range []*replica{a, b} {
			all.Go(func() {
				out, err := r.Drive(r.context(), q, asked(client))
				if assert.NoError(t, err) {
					assert.Equal(t, "booked", out.Result.Content.Text())
				}
			})
			time.Sleep(time.Second)
		}
		all.Wait()
		assert.Equal(t, 2, asks)
		assert.Len(t, w.calls, 2)

		// One that broke off can be tried again.
		q.IdempotencyKey = "l"
		gone := func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
			if list[0].ID == "pay" {
				return nil, turns.ErrGone
			}
			return []steps.Answer{say(list[0].ID, true)}, nil
		}
		_, err := a.Drive(a.context(), q, asked(gone))
		require.ErrorIs(t, err, turns.ErrGone)
		out, err := b.Drive(b.context(), q, asked(client))
		require.NoError(t, err)
		assert.Equal(t, "booked", out.Result.Content.Text())
		assert.Len(t, w.things(), 4)
	})
}

// A turn that breaks off can be taken again at once, with the same answers.
func TestBrokenTurnsWithALedger(t *testing.T) {
	w, s := tripFleet(t)
	a := s.replica()
	first := a.begin(t, `{"to":"Rome"}`)
	w.at = func(_ context.Context, _ string, after bool) error {
		if after {
			panic("oops")
		}
		return nil
	}
	_, err := a.resume(first.Token, say("where", true))
	require.ErrorAs(t, err, new(*engine.PanicError))
	w.at = nil
	_, err = a.resume(first.Token, say("where", false))
	spent(t, err)
	begun := time.Now()
	_, err = a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	assert.Less(t, time.Since(begun), leaseTime/2)
	assert.Len(t, w.things(), 1)

	// A first turn that nobody can take again is undone.
	w.at = func(_ context.Context, _ string, after bool) error {
		if after {
			panic("oops")
		}
		return nil
	}
	_, err = a.call(`{"to":"Oslo","early":true}`)
	require.Error(t, err)
	assert.Len(t, w.things(), 1)
}

// A turn that went on with answers of the server's own model is taken up where it was, with
// the same answers, or undone from there.
func TestLostTurnsWithAModel(t *testing.T) {
	for _, undo := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newOutside()
			var sent []string
			hold, mail := w.effect("hold"), w.effect("mail")
			do := mail.Do
			mail.Do = func(ctx context.Context, key saga.Key, in string) (string, error) {
				sent = append(sent, in)
				return do(ctx, key, in)
			}
			where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
			draft := &steps.Sample{ID: "draft", Request: steps.SampleRequest{MaxTokens: 10}}
			tool := saga.Flow[tripArgs, string]{Info: saga.Info{Name: "trip", Asks: []steps.Question{where, draft}, Effects: []saga.Declared{hold, mail}}, Run: func(r *saga.Run, in tripArgs) (string, error) {
				if _, err := saga.Ask(r, where); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, hold, in.To); err != nil {
					return "", err
				}
				text, err := saga.Ask(r, draft.With(steps.Promptf("write")))
				if err != nil {
					return "", err
				}
				if _, err := saga.Do(r, mail, text.Content.Text()); err != nil {
					return "", err
				}
				_, err = saga.Ask(r, where.Nth(2))
				return "done", err
			}}
			s := newFleet(t, tool)
			thought := 0
			model := func(c *clientConfig) {
				c.Model = func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error) {
					thought++
					return &steps.SampleResult{Role: content.Assistant, Model: "m", Content: content.Blocks{content.Text{Text: fmt.Sprint("text ", thought)}}}, nil
				}
			}
			a, b := s.replica(model), s.replica(model)
			bare := func(q *turns.Request) { q.Client = steps.Features{Forms: true} }
			first := a.begin(t, `{"to":"Rome"}`, bare)
			w.at = func(ctx context.Context, name string, after bool) error {
				if name == "mail" && after && ctx.Value(lineKey{}) == a.line {
					a.line.die()
				}
				return nil
			}
			q := turns.Request{Policy: turns.Carried, Principal: "ann", Client: steps.Features{Forms: true}, Token: first.Token, Answers: []steps.Answer{say("where", true)}}
			_, err := a.Resume(a.context(), q)
			require.Error(t, err)
			require.ElementsMatch(t, []string{"hold", "mail"}, w.things())
			if undo {
				b.work(t)
				time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Second)
				assert.Empty(t, w.things(), "%s", s.logged())
			} else {
				end, err := b.Resume(b.context(), q)
				require.NoError(t, err)
				require.NotEmpty(t, end.Token)
				assert.ElementsMatch(t, []string{"hold", "mail"}, w.things())
			}
			assert.Equal(t, []string{"text 1", "text 1"}, sent)
		})
	}
}
