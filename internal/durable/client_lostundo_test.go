package durable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A turn that has ended badly, and whose worker dies while it undoes, is not taken again: who
// takes over goes on with the undo, and the client is told how the turn has ended.
func TestUndoThatWasLost(t *testing.T) {
	const refused = "three: sold out\nUndone: two, one."
	for name, early := range map[string]bool{"of a turn": false, "of a first turn": true} {
		for how, again := range map[string]bool{"the client comes back": true, "by a worker": false} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newOutside()
					dying := new(replica)
					s := newFleet(t, w.cutUndo(dying, w.chain("one", "two", "three"), "two"))
					*dying = *s.replica()
					a, b := dying, s.replica()
					take := func(r *replica, ok bool) (turns.End, error) {
						return r.call(`{"to":"Rome","early":true}`, func(q *turns.Request) { q.IdempotencyKey = "k" })
					}
					if !early {
						first := a.begin(t, `{"to":"Rome"}`)
						take = func(r *replica, ok bool) (turns.End, error) { return r.resume(first.Token, say("where", ok)) }
					}
					w.answers("three", saga.Refused(errors.New("sold out")))
					_, err := take(a, true)
					require.Error(t, err)
					require.Equal(t, []string{"one"}, w.things())
					w.at, w.calls = nil, nil // three would succeed now
					if again {
						if !early {
							_, err = take(b, false)
							spent(t, err)
						}
					} else {
						b.work(t)
						time.Sleep(leaseTime + time.Second)
						assert.Empty(t, w.things())
					}
					end, err := take(b, true)
					require.NoError(t, err)
					assert.Equal(t, refused, end.Result.Content.Text())
					assert.True(t, end.Result.IsError)
					assert.Empty(t, end.Gone)
					assert.Equal(t, []string{"undo two", "undo one"}, w.calls)
					told1, err := take(s.replica(), true)
					require.NoError(t, err)
					assert.Equal(t, told(t, end), told(t, told1))
				})
			})
		}
	}
}

// A client may cancel what is being undone, also when its time is over.
func TestUndoThatWasLostAndThenCancelled(t *testing.T) {
	for name, late := range map[string]bool{"in time": false, "late": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				dying := new(replica)
				s := newFleet(t, w.cutUndo(dying, w.chain("one", "two", "three"), "two"))
				*dying = *s.replica()
				first := dying.begin(t, `{"to":"Rome"}`)
				w.answers("three", saga.Refused(errors.New("sold out")))
				_, err := dying.resume(first.Token, say("where", true))
				require.Error(t, err)
				w.at, w.calls = nil, nil
				b := s.replica()
				if late {
					time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew)
				}
				end, err := b.cancel(first.Token)
				require.NoError(t, err)
				assert.Equal(t, []string{"two", "one"}, turns.UndoReport(end.Result).Undone)
				assert.Equal(t, []string{"undo two", "undo one"}, w.calls)
				assert.Empty(t, w.things())
			})
		})
	}
}

// What was undone of a lost turn before its worker was lost as well is not looked for by running
// the turn once more: what cannot be found by then would stay.
func TestUndoOfALostTurnThatWasLost(t *testing.T) {
	for name, first := range map[string]bool{"a turn": false, "a first turn": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				w.unwilling = map[string]bool{"two": true}
				dying := new(replica)
				s := newFleet(t, w.cutUndo(dying, w.chain("one", "two"), "one"))
				a := s.replica()
				w.dies(a, "two")
				if first {
					_, err := a.call(`{"to":"Rome","early":true}`)
					require.Error(t, err)
					w.at = nil
					*dying = *s.replica()
					dying.work(t)
					time.Sleep(leaseTime + time.Second)
				} else {
					end, err := a.call(`{"to":"Rome"}`)
					require.NoError(t, err)
					_, err = a.resume(end.Token, say("where", true))
					require.Error(t, err)
					w.at = nil
					*dying = *s.replica()
					_, err = dying.cancel(end.Token)
					require.Error(t, err)
				}
				require.Equal(t, []string{"two"}, w.things(), "one is undone, and two could not be")
				w.mu.Lock()
				w.unwilling = nil
				w.mu.Unlock()
				s.replica().work(t)
				time.Sleep(3 * leaseTime) // the dying one may take it once more
				assert.Empty(t, w.things(), s.logged())
			})
		})
	}
}

// The same if it was not the code that broke off: here it asks the server's model without end.
func TestUndoOfATurnWithoutEndThatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		w.unwilling = map[string]bool{"two": true}
		dying := new(replica)
		draft := &steps.Sample{ID: "draft", Request: steps.SampleRequest{MaxTokens: 10}}
		flow := w.cutUndo(dying, w.chain("one", "two"), "one").(saga.Flow[tripArgs, string])
		flow.Asks = append(flow.Asks, draft)
		flow.Run = func(r *saga.Run, in tripArgs) (string, error) {
			one, two := flow.Effects[0].(*saga.Effect[string, string]), flow.Effects[1].(*saga.Effect[string, string])
			for _, e := range []*saga.Effect[string, string]{one, two} {
				if _, err := saga.Do(r, e, in.To); err != nil {
					return "", err
				}
			}
			for n := 1; ; n++ {
				if _, err := saga.Ask(r, draft.With(steps.Promptf("write")).Nth(n)); err != nil {
					return "", err
				}
			}
		}
		s := newFleet(t, flow)
		model := func(c *clientConfig) {
			c.Model = func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error) {
				return &steps.SampleResult{Role: content.Assistant, Model: "m", Content: content.Blocks{content.Text{Text: "more"}}}, nil
			}
		}
		*dying = *s.replica(model)
		_, err := dying.call(`{"to":"Rome"}`, func(q *turns.Request) { q.Client = steps.Features{Forms: true} })
		require.Error(t, err)
		require.Equal(t, []string{"two"}, w.things(), "one is undone, and two could not be")
		w.mu.Lock()
		w.unwilling = nil
		w.mu.Unlock()
		s.replica(model).work(t)
		time.Sleep(leaseTime + time.Second)
		assert.Empty(t, w.things(), s.logged())
	})
}

// Who goes on with an undo and cannot tell whether it may, tries again with growing pauses.
func TestUndoThatWasLostAndIsUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		dying := new(replica)
		flow := w.cutUndo(dying, w.chain("one", "two", "capture"), "two").(saga.Flow[tripArgs, string])
		flow.Effects[2].(*saga.Effect[string, string]).Irreversible = true
		s := newFleet(t, flow)
		*dying = *s.replica()
		first := dying.begin(t, `{"to":"Rome"}`)
		w.answers("capture", errTimeout)
		_, err := dying.resume(first.Token, say("where", true))
		require.Error(t, err)
		require.Equal(t, []string{"capture", "undo capture", "undo two"}, append([]string{"capture"}, w.calls[2:]...))
		w.mu.Lock()
		w.unwilling = map[string]bool{"capture": true}
		w.mu.Unlock()
		b := s.replica()
		b.work(t)
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"one"}, w.things())
		one := b.onlyWaiting(t)
		assert.Equal(t, durable.Failing, one.State)
		assert.Less(t, one.Failures, 10)
		w.mu.Lock()
		w.unwilling = nil
		w.mu.Unlock()
		time.Sleep(2 * time.Hour)
		assert.Empty(t, w.things(), s.logged())
	})
}

// A request that is driven by its own server, and breaks off, is undone by another if that server
// dies meanwhile.
func TestUndoOfAHeldTurnThatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, dying := dyingInUndo(t)
		_, err := dying.call(`{"to":"Rome","early":true}`, func(q *turns.Request) { q.Policy = turns.Held })
		require.Error(t, err)
		require.Contains(t, w.things(), "one")
		w.at, w.calls = nil, nil
		s.replica().work(t)
		time.Sleep(leaseTime + time.Second)
		assert.Empty(t, w.things(), s.logged())
		assert.Equal(t, []string{"undo three", "undo two", "undo one"}, w.calls)
	})
}
