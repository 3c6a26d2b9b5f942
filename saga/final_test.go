package saga_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

var errDown = errors.New("connection reset")

// purchase holds a seat, asks, pays, which is irreversible, and sends a ticket.
func purchase(w *world, pay *saga.Effect[string, hold]) saga.Flow[empty, string] {
	seat := w.effect("seat")
	ticket := &saga.Effect[string, hold]{Name: "ticket", Do: w.effect("ticket").Do}
	return saga.Flow[empty, string]{
		Info: saga.Info{Name: "purchase", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{seat, pay, ticket}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Do(r, seat, "seat"); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, "money"); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, ticket, "ticket"); err != nil {
				return "", err
			}
			return "bought", nil
		},
	}
}

// payment is an irreversible effect, with an Undo that tells whether it was done
// if asked for.
func (w *world) payment(withUndo bool) *saga.Effect[string, hold] {
	pay := &saga.Effect[string, hold]{Name: "pay", Irreversible: true, Do: w.effect("pay").Do}
	if withUndo {
		pay.Undo = func(_ context.Context, p saga.Performed[string, hold]) error {
			if err := w.call("prevent pay"); err != nil {
				return err
			}
			if _, paid := w.held[p.Key]; paid {
				return saga.Final(errors.New("it is paid"))
			}
			return nil
		}
	}
	return pay
}

// failing lets the calls fail that are listed.
func failing(calls ...string) func(string) error {
	return func(call string) error {
		for _, c := range calls {
			if c == call {
				return errDown
			}
		}
		return nil
	}
}

// Code that gives a good result although it does not know has decided so.
func TestGoodResultInSpiteOfAnUnknownIrreversibleEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		pay := w.payment(false)
		s := play(t, saga.Flow[empty, string]{
			Info: saga.Info{Name: "f", Effects: []saga.Declared{pay}},
			Run: func(r *saga.Run, _ empty) (string, error) {
				_, err := saga.Do(r, pay, "5")
				assert.ErrorContains(t, err, "unknown outcome")
				return "The payment is being looked into.", nil
			},
		})
		w.fail = failing("do pay")
		assert.Equal(t, "The payment is being looked into.", text(t, s.start(`{}`)))
		assert.NotContains(t, w.log, "undo pay")
	})
}

func TestUnknownIrreversibleEffect(t *testing.T) {
	tests := []struct {
		name     string
		withUndo bool
		fail     []string
		paid     bool     // although Do reports an error
		undone   []string // if the saga ends
	}{
		{name: "nothing tells: the turn is to be taken again", fail: []string{"do pay"}},
		{name: "it can be prevented: the saga ends", withUndo: true, fail: []string{"do pay"}, undone: []string{"pay", "seat"}},
		{name: "it was performed: the turn is to be taken again", withUndo: true, fail: []string{"do pay"}, paid: true},
		{name: "the Undo fails: the turn is to be taken again", withUndo: true, fail: []string{"do pay", "prevent pay"}},
		{name: "a later effect is unknown: the turn is to be taken again", fail: []string{"do ticket"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				pay := w.payment(test.withUndo)
				if test.paid {
					do := pay.Do
					pay.Do = func(ctx context.Context, key saga.Key, in string) (hold, error) {
						w.held[key] = in // and then the response is lost
						return do(ctx, key, in)
					}
				}
				s := play(t, purchase(w, pay))
				s.start(`{}`)
				w.fail = failing(test.fail...)
				out, err := s.resume(accept("confirm", yes))
				if test.undone != nil {
					require.NoError(t, err)
					assert.Equal(t, test.undone, report(t, out).Undone)
					return
				}
				var unsettled *engine.UnsettledError
				require.ErrorAs(t, err, &unsettled)
				assert.ErrorContains(t, err, errDown.Error())
				assert.NotContains(t, w.log, "undo seat true")
				w.fail = failing()
				assert.Equal(t, "bought", text(t, s.answer(accept("confirm", yes))))
				assert.Len(t, w.held, 3)
			})
		})
	}
}

func TestCancelStopsBeforeTheIrreversible(t *testing.T) {
	cancel := func(s *session) (*engine.Outcome, error) {
		return s.tool.Cancel(context.Background(), s.pos, engine.Call{
			Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)},
		})
	}
	t.Run("what was never performed is not", func(t *testing.T) {
		w := newWorld()
		s := play(t, purchase(w, w.payment(true)))
		s.start(`{}`)
		out, err := cancel(s)
		require.NoError(t, err)
		assert.Equal(t, []string{"do seat", "prevent pay", "undo seat true"}, w.log)
		assert.Equal(t, cancelledAfter+"Undone: pay, seat.", text(t, out))
	})
	t.Run("what was performed is completed", func(t *testing.T) {
		w := newWorld()
		s := play(t, purchase(w, w.payment(true)))
		s.start(`{}`)
		_, err := s.resume(accept("confirm", yes)) // the response is lost
		require.NoError(t, err)
		out, err := cancel(s)
		require.NoError(t, err)
		assert.Equal(t, "bought", text(t, out))
		assert.NotContains(t, w.log, "undo seat true")
	})
	t.Run("while it is unknown, neither", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			s := play(t, purchase(w, w.payment(true)))
			s.start(`{}`)
			w.fail = failing("prevent pay")
			_, err := cancel(s)
			var unsettled *engine.UnsettledError
			require.ErrorAs(t, err, &unsettled)
			assert.Equal(t, "pay", unsettled.Effect)
			assert.Len(t, w.held, 1)
		})
	})
	t.Run("without an Undo it is performed", func(t *testing.T) {
		w := newWorld()
		s := play(t, purchase(w, w.payment(false)))
		s.start(`{}`)
		out, err := cancel(s)
		require.NoError(t, err)
		assert.Equal(t, "bought", text(t, out))
	})
	t.Run("a flow that swallows the end", func(t *testing.T) {
		w := newWorld()
		pay := w.payment(true)
		f := purchase(w, pay)
		f.Run = func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			_, _ = saga.Do(r, pay, "money")
			return "done", nil
		}
		s := play(t, f)
		s.start(`{}`)
		out, err := cancel(s)
		require.NoError(t, err)
		assert.Equal(t, []string{"pay"}, report(t, out).Undone)
	})
}

func TestFinalUndo(t *testing.T) {
	w := newWorld()
	first, last := w.effect("first"), w.effect("last")
	last.Undo = func(context.Context, saga.Performed[string, hold]) error {
		return saga.Final(w.call("undo last"))
	}
	s := play(t, saga.Flow[empty, string]{
		Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{first, last}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			for _, e := range []*saga.Effect[string, hold]{first, last} {
				if _, err := saga.Do(r, e, "a"); err != nil {
					return "", err
				}
			}
			_, err := saga.Ask(r, askConfirm)
			return "done", err
		},
	})
	s.start(`{}`)
	w.fail = failing("undo last")
	out, err := s.tool.Cancel(context.Background(), s.pos, engine.Call{Now: testNow})
	require.NoError(t, err)
	assert.Equal(t, []string{"do first", "do last", "undo last"}, w.log, "it is not tried again, and what came before stays")
	u := report(t, out)
	assert.Equal(t, "last", u.Final)
	assert.True(t, out.Result.IsError)
	assert.Equal(t, `Not cancelled: it is too late.Nothing was undone: "last" is done and final.`, text(t, out))
	out, err = s.tool.Cancel(context.Background(), s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
	require.NoError(t, err)
	assert.Equal(t, "done", text(t, out), "with the answers, the saga is completed instead")
	w.fail = failing()
	assert.NoError(t, saga.Final(nil))
}

func TestUndoCanBeTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := play(t, booking(w))
		s.start(`{}`)
		w.fail = failing("undo flight true")
		s.answer(accept("confirm", yes))
		u := report(t, s.answer(action("city", "decline")))
		assert.Equal(t, []string{"hotel"}, u.Undone)
		assert.Equal(t, []string{"flight"}, u.Outstanding)
		require.NotNil(t, u.Again)

		w.fail = failing()
		again := &engine.Position{ID: u.Again.ID, Tool: u.Again.Tool, Revision: u.Again.Revision}
		require.NoError(t, again.Restore(u.Again.Encode()))
		_, err := s.tool.Resume(context.Background(), again, engine.Call{Now: testNow})
		var position *engine.PositionError
		require.ErrorAs(t, err, &position, "it has ended")
		w.log = nil
		out, err := s.tool.Cancel(context.Background(), again, engine.Call{Now: testNow, Answers: []steps.Answer{accept("confirm", yes)}})
		require.NoError(t, err)
		assert.Equal(t, []string{"undo flight true"}, w.log)
		assert.Nil(t, report(t, out).Again)
		assert.Equal(t, "Cancelled.Undone: flight.", text(t, out), "no turn was looked for")
		assert.Empty(t, w.held)
	})
}

// What came after an effect that turns out to be final is undone, in the end, though that fails at first;
// and as it may have been undone all the same, the saga does not go on.
func TestWhatFollowsAFinalEffectIsUndoneLater(t *testing.T) {
	tool := func(w *world, fails bool) saga.Flow[empty, string] {
		room, taxi := w.effect("room"), w.effect("taxi")
		room.Undo = func(context.Context, saga.Performed[string, hold]) error { return saga.Final(w.call("undo room")) }
		return saga.Flow[empty, string]{
			Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm, askCity}, Effects: []saga.Declared{room, taxi}},
			Run: func(r *saga.Run, _ empty) (string, error) {
				for _, e := range []*saga.Effect[string, hold]{room, taxi} {
					if _, err := saga.Do(r, e, "x"); err != nil {
						return "", err
					}
				}
				if _, err := saga.Ask(r, askConfirm); err != nil {
					return "", err
				}
				if fails {
					return "", saga.Failf("no")
				}
				_, err := saga.Ask(r, askCity)
				return "done", err
			},
		}
	}
	for name, end := range map[string]func(*session) (*engine.Outcome, error){
		"cancelled": func(s *session) (*engine.Outcome, error) {
			return s.tool.Cancel(context.Background(), s.pos, engine.Call{Now: testNow})
		},
		"cancelled with the answers": func(s *session) (*engine.Outcome, error) {
			return s.tool.Cancel(context.Background(), s.pos, engine.Call{
				Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)},
			})
		},
		"failed": func(s *session) (*engine.Outcome, error) { return s.resume(accept("confirm", yes)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				s := play(t, tool(w, name == "failed"))
				s.start(`{}`)
				w.fail = failing("undo room", "undo taxi true")
				out, err := end(s)
				require.NoError(t, err)
				u := report(t, out)
				assert.Equal(t, "room", u.Final)
				assert.Equal(t, []string{"taxi"}, u.Outstanding)
				assert.True(t, out.Result.IsError)
				require.NotNil(t, u.Again)
				w.log, w.fail = nil, failing("undo room")
				again := &engine.Position{ID: u.Again.ID, Tool: u.Again.Tool, Revision: u.Again.Revision}
				require.NoError(t, again.Restore(u.Again.Encode()))
				out, err = s.tool.Cancel(context.Background(), again, engine.Call{Now: testNow})
				require.NoError(t, err)
				assert.Equal(t, []string{"undo taxi true"}, w.log)
				assert.Equal(t, []string{"taxi"}, report(t, out).Undone)
				assert.Nil(t, report(t, out).Again)
			})
		})
	}
}

// What is refused for certain after the point of no return ends the saga: to take the
// turn again would not help.
func TestRefusedAfterTheIrreversible(t *testing.T) {
	w := newWorld()
	s := play(t, purchase(w, w.payment(false)))
	s.start(`{}`)
	w.fail = func(call string) error {
		if call == "do ticket" {
			return saga.Refused(errDown)
		}
		return nil
	}
	out := s.answer(accept("confirm", yes))
	assert.True(t, out.Result.IsError)
	assert.Equal(t, "pay", report(t, out).Final)
	assert.NotContains(t, w.log, "undo seat true")
}

func TestUnsettledTurnThatNobodyTakesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s := play(t, purchase(w, w.payment(false)))
		s.start(`{}`)
		w.fail = failing("do pay")
		_, err := s.tool.Resume(context.Background(), s.pos, engine.Call{
			Now: testNow, Client: steps.AllFeatures(), Held: true, Answers: []steps.Answer{accept("confirm", yes)},
		})
		var undone *engine.UndoneError
		require.ErrorAs(t, err, &undone)
		assert.Equal(t, []string{"pay", "seat"}, undone.Report.Outstanding)
		assert.Len(t, w.held, 1)
	})
}

// A saga that cannot be cancelled any more goes forward if nothing was undone yet. How
// that ends is how cancelling ends.
func TestCancelGoesForward(t *testing.T) {
	cancel := func(s *session) (*engine.Outcome, error) {
		return s.tool.Cancel(context.Background(), s.pos, engine.Call{
			Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)},
		})
	}
	paid := func(t *testing.T, f saga.Flow[empty, string], w *world) *session {
		s := play(t, f)
		s.start(`{}`)
		_, _ = s.resume(accept("confirm", yes)) // the response is lost
		w.log = nil
		return s
	}
	t.Run("as far as the next question", func(t *testing.T) {
		w := newWorld()
		pay := w.payment(true)
		f := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm, askCity}, Effects: []saga.Declared{pay}}, Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, "money"); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, askCity)
			return "sent", err
		}}
		out, err := cancel(paid(t, f, w))
		require.NoError(t, err)
		assert.Equal(t, `Not cancelled: it is too late.Nothing was undone: "pay" is done and final.`, text(t, out))
		assert.True(t, out.Result.IsError)
		assert.Equal(t, []string{"prevent pay", "do pay"}, w.log)
	})
	t.Run("unless that is not possible now", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			s := paid(t, purchase(w, w.payment(true)), w)
			w.fail = failing("do ticket")
			_, err := cancel(s)
			var unsettled *engine.UnsettledError
			require.ErrorAs(t, err, &unsettled, "the client has to come again")
			assert.Equal(t, "ticket", unsettled.Effect)
		})
	})
	t.Run("but not if something was undone already", func(t *testing.T) {
		w := newWorld()
		room, seat, pay := w.effect("room"), w.effect("seat"), w.payment(true)
		room.Undo = func(context.Context, saga.Performed[string, hold]) error { return saga.Final(errDown) }
		f := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{room, seat, pay}}, Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			for _, e := range []*saga.Effect[string, hold]{room, seat, pay} {
				if _, err := saga.Do(r, e, "x"); err != nil {
					return "", err
				}
			}
			return "bought", nil
		}}
		s := play(t, f)
		s.start(`{}`)
		out, err := cancel(s)
		require.NoError(t, err)
		assert.Equal(t, []string{"pay", "seat"}, report(t, out).Undone)
		assert.Equal(t, "room", report(t, out).Final)
		assert.Equal(t, `Cancelled in part: the saga has ended, but "room" is final.Undone up to "room", which is final.
Undone: pay, seat.`, text(t, out))
		assert.True(t, out.Result.IsError)
		assert.NotContains(t, w.log, "do pay", "a saga of which a part is undone is not completed")
	})
	t.Run("and a tool without effects is just cancelled", func(t *testing.T) {
		s := play(t, trip())
		s.start(`{"from":"Oslo"}`)
		out, err := s.tool.Cancel(context.Background(), s.pos, engine.Call{
			Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("city", goodCity), accept("date", goodDate)},
		})
		require.NoError(t, err)
		assert.Equal(t, "Cancelled.", text(t, out))
	})
}
