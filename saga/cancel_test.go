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

// What a client reads first that cancels with a token, and with answers as well.
const (
	cancelledFrom  = "Cancelled. If the saga went on from this token, what it did since then is not undone: cancel it with its latest token."
	cancelledAfter = "Cancelled. If the saga went on after these answers, what it did since then is not undone: cancel it with its latest token."
)

func TestCancel(t *testing.T) {
	ctx := context.Background()
	second := func(t *testing.T, w *world) *session {
		s := play(t, booking(w))
		s.start(`{}`)
		return s
	}
	t.Run("undoes what the position knows of", func(t *testing.T) {
		w := newWorld()
		s := second(t, w)
		out, err := s.tool.Cancel(ctx, s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures()})
		require.NoError(t, err)
		assert.Equal(t, []string{"hotel"}, report(t, out).Undone)
		assert.Equal(t, cancelledFrom+"Undone: hotel.", text(t, out))
		assert.False(t, out.Result.IsError)
		assert.Empty(t, w.held)
	})
	t.Run("an old token does not pretend to know what came after", func(t *testing.T) {
		w := newWorld()
		f := booking(w)
		run := f.Run
		f.Run = func(r *saga.Run, in empty) (string, error) { // asks before it acts
			if _, err := saga.Ask(r, askCity.Nth(1)); err != nil {
				return "", err
			}
			return run(r, in)
		}
		s := play(t, f)
		s.start(`{}`)
		first := s.pos
		s.answer(accept("city#1", goodCity))
		second := s.pos
		s.answer(accept("confirm", yes))
		assert.Equal(t, "booked", text(t, s.answer(accept("city", goodCity))))
		out, err := s.tool.Cancel(ctx, first, engine.Call{Now: testNow})
		require.NoError(t, err)
		assert.Equal(t, "Cancelled. Up to this token, the saga has done nothing that is to be undone. If the saga went on from this token, what it did since then is not undone: cancel it with its latest token.", text(t, out))
		assert.False(t, out.Result.IsError, "a saga that had not begun is cancelled as was wanted")
		assert.Len(t, w.held, 3)
		out, err = s.tool.Cancel(ctx, second, engine.Call{Now: testNow})
		require.NoError(t, err)
		assert.Equal(t, cancelledFrom+"Undone: hotel.", text(t, out), "what comes after is for the system behind to refuse")
	})
	t.Run("a tool without effects has nothing to say", func(t *testing.T) {
		s := play(t, trip())
		s.start(`{"from":"Oslo"}`)
		out, err := s.tool.Cancel(ctx, s.pos, engine.Call{Now: testNow})
		require.NoError(t, err)
		assert.Equal(t, "Cancelled.", text(t, out))
	})
	t.Run("finds what a lost turn has done", func(t *testing.T) {
		w := newWorld()
		s := second(t, w)
		_, err := s.resume(accept("confirm", yes)) // its response never arrives
		require.NoError(t, err)
		require.Len(t, w.held, 2)
		out, err := s.tool.Cancel(ctx, s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
		require.NoError(t, err)
		assert.Equal(t, []string{"flight", "hotel"}, report(t, out).Undone)
		assert.Empty(t, w.held)
	})
	t.Run("is too late when the turn ends the saga", func(t *testing.T) {
		w := newWorld()
		s := second(t, w)
		s.answer(accept("confirm", yes))
		out, err := s.tool.Cancel(ctx, s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("city", goodCity)}})
		require.NoError(t, err)
		assert.Equal(t, "booked", text(t, out))
		assert.Len(t, w.held, 3)
	})
	t.Run("can be repeated", func(t *testing.T) {
		w := newWorld()
		s := second(t, w)
		for range 2 {
			out, err := s.tool.Cancel(ctx, s.pos, engine.Call{Now: testNow})
			require.NoError(t, err)
			assert.Equal(t, []string{"hotel"}, report(t, out).Undone)
		}
	})
	t.Run("can be repeated with answers", func(t *testing.T) {
		w := newWorld()
		f := booking(w)
		flight := f.Effects[1].(*saga.Effect[string, hold])
		do, undo, released := flight.Do, flight.Undo, false
		flight.Do = func(ctx context.Context, key saga.Key, in string) (hold, error) {
			if released {
				return hold{}, saga.Refused(errors.New("this key was released"))
			}
			return do(ctx, key, in)
		}
		flight.Undo = func(ctx context.Context, p saga.Performed[string, hold]) error {
			released = true
			return undo(ctx, p)
		}
		s := play(t, f)
		s.start(`{}`)
		for _, undone := range [][]string{{"flight", "hotel"}, {"hotel"}, {"hotel"}} {
			out, err := s.tool.Cancel(ctx, s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
			require.NoError(t, err)
			assert.False(t, out.Result.IsError)
			assert.Equal(t, undone, report(t, out).Undone)
			assert.Contains(t, text(t, out), "Cancelled.")
			assert.Empty(t, w.held)
		}
	})
	t.Run("a turn that fails is as good", func(t *testing.T) {
		w := newWorld()
		s := second(t, w)
		w.fail = func(c string) error {
			if c == "do flight" {
				return saga.Refused(errors.New("no seats"))
			}
			return nil
		}
		out, err := s.tool.Cancel(ctx, s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
		require.NoError(t, err)
		assert.False(t, out.Result.IsError)
		assert.Equal(t, cancelledAfter+"Undone: hotel.", text(t, out))
		assert.ErrorContains(t, out.Err, "no seats", "why is for the log")
	})
	t.Run("a turn that fails with an outstanding undo says so", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			s := second(t, w)
			w.fail = func(c string) error {
				switch c {
				case "do flight":
					return saga.Refused(errors.New("no seats"))
				case "undo hotel true":
					return errors.New("busy")
				}
				return nil
			}
			out, err := s.tool.Cancel(ctx, s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
			require.NoError(t, err)
			u := report(t, out)
			assert.Equal(t, []string{"hotel"}, u.Outstanding)
			assert.NotNil(t, u.Again)
			assert.ErrorContains(t, out.Err, "busy")
		})
	})
	t.Run("a retired revision is abandoned", func(t *testing.T) {
		w := newWorld()
		s := second(t, w)
		require.True(t, s.pos.HasEffects())
		out, err := s.tool.Abandon(ctx, s.pos, engine.Call{Why: "This version of the tool is gone."})
		require.NoError(t, err)
		assert.True(t, out.Result.IsError)
		assert.Empty(t, w.held)
		assert.Contains(t, text(t, out), "This version of the tool is gone.")
	})
	t.Run("an effect that is no longer declared is reported", func(t *testing.T) {
		w := newWorld()
		s := second(t, w)
		f := booking(w)
		f.Effects = f.Effects[1:]
		out, err := play(t, f).tool.Abandon(ctx, s.pos, engine.Call{Why: "Gone."})
		require.NoError(t, err)
		assert.Equal(t, []string{"hotel"}, report(t, out).Outstanding)
		assert.ErrorContains(t, out.Err, "no longer declares")
	})
}
