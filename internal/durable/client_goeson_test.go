package durable_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// resting asks, acts, yields, sleeps for a second and acts again; if it is to go to Rome it asks once more then.
func resting(w *outside) saga.Definition {
	where, pay := &steps.Form[tripForm]{ID: "where", Message: "There?"}, &steps.Form[tripForm]{ID: "pay", Message: "Pay?"}
	hold, charge := w.effect("hold"), w.effect("charge")
	info := saga.Info{Name: "trip", Asks: []steps.Question{where, pay}, Effects: []saga.Declared{hold, charge}, Yields: true}
	return saga.Flow[tripArgs, string]{Info: info, Run: func(r *saga.Run, in tripArgs) (string, error) {
		if _, err := saga.Ask(r, where); err != nil {
			return "", err
		}
		if _, err := saga.Do(r, hold, in.To); err != nil {
			return "", err
		}
		if err := r.Yield(content.Textf("held")); err != nil {
			return "", err
		}
		if err := r.Sleep(time.Second); err != nil {
			return "", err
		}
		if _, err := saga.Do(r, charge, in.To); err != nil {
			return "", err
		}
		if in.To == "Rome" {
			if _, err := saga.Ask(r, pay); err != nil {
				return "", err
			}
		}
		return "booked " + in.To, nil
	}}
}

// A turn that was lost when it had gone on without its client has the arguments that its saga was begun with, its
// token is of its client's policy, and nothing that it yielded is lost.
func TestALostTurnThatHadGoneOn(t *testing.T) {
	for _, policy := range []turns.Policy{turns.Carried, turns.Resent} {
		for _, to := range []string{"Rome", "Oslo"} {
			t.Run(policy.Purpose+to, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newOutside()
					s := newFleet(t, resting(w))
					a, b := s.replica(), s.replica()
					w.at = func(ctx context.Context, effect string, after bool) error {
						if l := ctx.Value(lineKey{}); l == a.line && effect == "charge" && after {
							a.line.die()
						}
						return nil
					}
					q := turns.Request{Policy: policy, Principal: "ann", Client: steps.AllFeatures(), Program: a.Registry.Find(engine.KindTool, "trip"), Arguments: []byte(`{"to":"` + to + `"}`), IdempotencyKey: "it"}
					end, err := a.Call(a.context(), q)
					require.NoError(t, err)
					take := func(r *replica, answer steps.Answer) {
						q.Token, q.Program, q.IdempotencyKey, q.Answers = end.Token, nil, "", []steps.Answer{answer}
						if policy == turns.Carried {
							q.Arguments = nil
						}
						end, err = r.Resume(r.context(), q)
					}
					lost := end
					take(a, say("where", true))
					require.Error(t, err)
					end = lost
					take(b, say("where", true))
					require.NoError(t, err)
					if to == "Rome" {
						require.NotEmpty(t, end.Token)
						take(b, say("pay", true))
						require.NoError(t, err)
					}
					assert.Equal(t, "held\nbooked "+to, end.Result.Content.Text())
					assert.ElementsMatch(t, []string{"hold", "charge"}, w.things())
				})
			})
		}
	}
}

// Whoever cancels a saga, or comes too late, whose lost turn had ended well has all that it yielded.
func TestALostTurnThatHadGoneOnToItsEnd(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newOutside()
			s := newFleet(t, resting(w))
			a, b := s.replica(), s.replica()
			w.at = func(ctx context.Context, effect string, after bool) error {
				if l := ctx.Value(lineKey{}); l == a.line && effect == "charge" && after {
					a.line.die()
				}
				return nil
			}
			first := a.begin(t, `{"to":"Oslo"}`)
			_, err := a.resume(first.Token, say("where", true))
			require.Error(t, err)
			end := func() (turns.End, error) { return b.cancel(first.Token, say("where", true)) }
			if late {
				b.work(t)
				time.Sleep(b.Codec.Options().TTL + b.Codec.Options().Skew + time.Second)
				end = func() (turns.End, error) { return b.resume(first.Token, say("where", true)) }
			}
			last, err := end()
			require.NoError(t, err)
			assert.Equal(t, "held\nbooked Oslo", last.Result.Content.Text())
		})
	}
}
