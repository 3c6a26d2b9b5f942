package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// held is a call with a key that its own server drives.
func heldCall(r *replica, args string) turns.Request {
	return turns.Request{Policy: turns.Held, Principal: "ann", Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "trip"), Arguments: json.RawMessage(args), IdempotencyKey: "k"}
}

var agrees = asked(func(ctx context.Context, list []steps.Step) ([]steps.Answer, error) {
	return []steps.Answer{say(list[0].ID, true)}, ctx.Err()
})

// A call with a key of which nobody has heard an end can be made again with that key, once what it
// did is undone: whether its server died, or its code broke.
func TestAHeldCallThatBrokeOffIsMadeAgain(t *testing.T) {
	for name, dies := range map[string]bool{"its server died": true, "its code broke": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := tripFleet(t)
				a, b := s.replica(), s.replica()
				client := agrees
				if dies {
					client = func(ctx context.Context, list []steps.Step) ([]steps.Answer, error) {
						if list[0].ID == "pay" {
							a.line.die()
						}
						return agrees(ctx, list)
					}
				} else {
					w.at = func(_ context.Context, effect string, _ bool) error {
						if effect == "charge" {
							panic("oops")
						}
						return nil
					}
				}
				_, err := a.Drive(a.context(), heldCall(a, `{"to":"Rome"}`), client)
				require.Error(t, err)
				w.at = nil
				b.work(t)
				time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
				require.Empty(t, w.things(), s.logged())
				out, err := b.Drive(b.context(), heldCall(b, `{"to":"Rome"}`), agrees)
				require.NoError(t, err)
				assert.Equal(t, "booked", out.Result.Content.Text())
				assert.Len(t, w.things(), 2)
			})
		})
	}
}

// What such a call did that broke is undone as soon as its server counts as dead, not when its time
// would have been over.
func TestAHeldCallWhoseUndoWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, dying := dyingInUndo(t)
		_, err := dying.Drive(dying.context(), heldCall(dying, `{"to":"Rome","early":true}`), agrees)
		require.Error(t, err)
		require.Equal(t, []string{"one"}, w.things())
		w.at = nil
		b := s.replica()
		b.work(t)
		time.Sleep(leaseTime + time.Second)
		assert.Empty(t, w.things(), s.logged())
		out, err := b.Drive(b.context(), heldCall(b, `{"to":"Rome","early":true}`), agrees)
		require.NoError(t, err)
		assert.Equal(t, "done", out.Result.Content.Text())
	})
}

// How a turn has ended that is being undone may be too large to be remembered. Then the client is
// told that the saga goes on no more, and nothing that is not so.
func TestAnEndThatIsTooLargeAndWasLost(t *testing.T) {
	for name, worker := range map[string]bool{"while it is undone": false, "afterwards": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				dying := new(replica)
				flow := w.cutUndo(dying, w.chain("one", "two", "three"), "two").(saga.Flow[tripArgs, string])
				run := flow.Run
				flow.Run = func(r *saga.Run, in tripArgs) (string, error) {
					out, err := run(r, in)
					if failed := (*engine.ToolError)(nil); errors.As(err, &failed) {
						err = saga.Failf("%s", strings.Repeat("x", store.MaxState))
					}
					return out, err
				}
				s := newFleet(t, flow)
				*dying = *s.replica()
				first := dying.begin(t, `{"to":"Rome"}`)
				w.answers("three", saga.Refused(errors.New("sold out")))
				_, err := dying.resume(first.Token, say("where", true))
				require.Error(t, err)
				require.Equal(t, []string{"one"}, w.things())
				w.at = nil
				b := s.replica()
				if worker {
					b.work(t)
				}
				time.Sleep(leaseTime + time.Second)
				_, err = b.resume(first.Token, say("where", true))
				spent(t, err)
				if worker {
					assert.Empty(t, w.things(), s.logged())
				}
			})
		})
	}
}

// Why an effect failed may be longer than what the ledger keeps. What came before it is undone
// nevertheless, and what may have happened of itself; and the tool says the same when it runs again.
func TestFailuresThatSayTooMuch(t *testing.T) {
	long := errors.New(strings.Repeat("x", store.MaxState))
	undone := map[string][]string{"refused": {"one"}, "unknown": {"two", "one"}}
	for name, why := range map[string]error{"refused": saga.Refused(long), "unknown": long} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				s := newFleet(t, w.chain("one", "two"))
				a := s.replica()
				first := a.begin(t, `{"to":"Rome"}`)
				w.answers("two", why)
				end, err := a.resume(first.Token, say("where", true))
				require.NoError(t, err, "the log is long")
				assert.Equal(t, undone[name], turns.UndoReport(end.Result).Undone)
				assert.Less(t, len(end.Result.Content.Text()), 20<<10)
				again, err := a.resume(first.Token, say("where", true))
				require.NoError(t, err, "it is remembered")
				assert.Equal(t, told(t, end), told(t, again))
				assert.Empty(t, w.things())
			})
		})
	}
}

// An undo that has not begun, as the ledger failed for a moment, is tried again after a lease: it
// has not failed, so there is no pause that grows.
func TestTheLedgerFailsBeforeAnUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := tripFleet(t)
		a, b := s.replica(), s.replica()
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew)
		var took, failed atomic.Bool
		b.line.on(func(_ int, op string) error {
			switch {
			case op == "Take":
				took.Store(true)
			case op == "Write" && took.Load() && failed.CompareAndSwap(false, true):
				return errors.New("not now")
			}
			return nil
		})
		b.work(t)
		time.Sleep(2 * leaseTime)
		assert.True(t, failed.Load())
		assert.Empty(t, w.things(), s.logged())
	})
}
