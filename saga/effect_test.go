package saga_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// world is a system behind effects that honours idempotency keys.
type world struct {
	held map[saga.Key]string
	log  []string
	// fail decides about calls, by what they are.
	fail func(call string) error
}

func newWorld() *world {
	return &world{held: map[saga.Key]string{}, fail: func(string) error { return nil }}
}

func (w *world) call(s string) error {
	w.log = append(w.log, s)
	return w.fail(s)
}

type hold struct {
	What string `json:"what"`
}

func (w *world) effect(name string) *saga.Effect[string, hold] {
	return &saga.Effect[string, hold]{
		Name: name,
		Do: func(_ context.Context, key saga.Key, in string) (hold, error) {
			if err := w.call("do " + name); err != nil {
				return hold{}, err
			}
			w.held[key] = in
			return hold{in}, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, hold]) error {
			if err := w.call(fmt.Sprintf("undo %s %v", name, p.Known)); err != nil {
				return err
			}
			if p.Known && p.Out.What != p.In {
				return errors.New("the result was lost")
			}
			delete(w.held, p.Key)
			return nil
		},
	}
}

// booking holds a hotel, asks, holds a flight, asks, and pays.
func booking(w *world) saga.Flow[empty, string] {
	hotel, flight := w.effect("hotel"), w.effect("flight")
	pay := &saga.Effect[string, hold]{Name: "pay", Irreversible: true, Do: w.effect("pay").Do}
	return saga.Flow[empty, string]{
		Info: saga.Info{Name: "booking", Asks: []steps.Question{askConfirm, askCity}, Effects: []saga.Declared{hotel, flight, pay}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Do(r, hotel, "room"); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, flight, "seat"); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askCity); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, "money"); err != nil {
				return "", err
			}
			return "booked", w.call("after")
		},
	}
}

func report(t *testing.T, out *engine.Outcome) *engine.UndoReport {
	t.Helper()
	require.NotNil(t, out.Result)
	u, ok := out.Result.Meta[engine.UndoMetaKey].(*engine.UndoReport)
	require.True(t, ok, "the result has no report")
	return u
}

func TestEffectsHappenOnce(t *testing.T) {
	w := newWorld()
	s := play(t, booking(w))
	s.start(`{}`)
	s.answer(accept("confirm", yes))
	out := s.answer(accept("city", goodCity))
	assert.Equal(t, "booked", text(t, out))
	assert.Equal(t, []string{"do hotel", "do flight", "do pay", "after"}, w.log)
	assert.Len(t, w.held, 3)
}

func TestRepeatedTurnUsesTheSameKeys(t *testing.T) {
	w := newWorld()
	s := play(t, booking(w))
	s.start(`{}`)
	for range 3 {
		_, err := s.resume(accept("confirm", yes))
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"do hotel", "do flight", "do flight", "do flight"}, w.log)
	assert.Len(t, w.held, 2, "the world knows the key and holds one seat")
}

func TestEffectsAreUndoneInReverse(t *testing.T) {
	for name, last := range map[string]steps.Answer{
		"declined": action("city", "decline"), "cancelled": action("city", "cancel"),
		"client error": {StepID: "city", Error: &steps.ClientError{Code: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			s := play(t, booking(w))
			s.start(`{}`)
			s.answer(accept("confirm", yes))
			out := s.answer(last)
			assert.Equal(t, []string{"do hotel", "do flight", "undo flight true", "undo hotel true"}, w.log)
			assert.Empty(t, w.held)
			assert.Equal(t, []string{"flight", "hotel"}, report(t, out).Undone)
			assert.Contains(t, text(t, out), "Undone: flight, hotel.")
		})
	}
	t.Run("too many invalid answers", func(t *testing.T) {
		w := newWorld()
		s := play(t, booking(w))
		s.start(`{}`)
		s.answer(accept("confirm", yes))
		s.answer(accept("city", `{}`))
		s.answer(accept("city~2", `{}`))
		out := s.answer(accept("city~3", `{}`))
		assert.True(t, out.Result.IsError)
		assert.Empty(t, w.held)
		assert.Equal(t, []string{"flight", "hotel"}, report(t, out).Undone)
	})
}

func TestNothingIsUndoneOnSuspension(t *testing.T) {
	w := newWorld()
	play(t, booking(w)).start(`{}`)
	assert.Equal(t, []string{"do hotel"}, w.log)
}

func TestEffectFailures(t *testing.T) {
	down := errors.New("connection reset")
	tests := []struct {
		name  string
		fail  func(string) error
		log   []string
		undo  []string
		left  []string
		final string
	}{
		{"an unknown outcome is tried again, then undone", func(c string) error {
			if c == "do flight" {
				return down
			}
			return nil
		}, []string{"do hotel", "do flight", "do flight", "do flight", "undo flight false", "undo hotel true"}, []string{"flight", "hotel"}, nil, ""},
		{"a refused effect is not tried again and not undone", func(c string) error {
			if c == "do flight" {
				return saga.Refused(errors.New("sold out"))
			}
			return nil
		}, []string{"do hotel", "do flight", "undo hotel true"}, []string{"hotel"}, nil, ""},
		{"a failed undo does not stop the others", func(c string) error {
			if c == "after" || c == "do pay" {
				return saga.Refused(down)
			}
			if c == "undo flight true" {
				return down
			}
			return nil
		}, []string{"do hotel", "do flight", "do pay", "undo flight true", "undo flight true", "undo flight true", "undo hotel true"}, []string{"hotel"}, []string{"flight"}, ""},
		{"after an irreversible effect nothing is undone", func(c string) error {
			if c == "after" {
				return down
			}
			return nil
		}, []string{"do hotel", "do flight", "do pay", "after"}, nil, nil, "pay"},
		{"a panic in an effect", func(c string) error {
			if c == "do flight" {
				panic("oops")
			}
			return nil
		}, nil, nil, nil, "panic"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.fail = test.fail
				s := play(t, booking(w))
				s.start(`{}`)
				if test.final == "panic" {
					_, err := s.resume(accept("confirm", yes))
					var p *engine.PanicError
					require.ErrorAs(t, err, &p, "the saga has not ended; the client can cancel it")
					return
				}
				out := s.answer(accept("confirm", yes))
				if out.Position != nil {
					out = s.answer(accept("city", goodCity))
				}
				assert.True(t, out.Result.IsError)
				assert.Equal(t, test.log, w.log)
				u := report(t, out)
				assert.Equal(t, test.undo, nonEmpty(u.Undone))
				assert.Equal(t, test.left, nonEmpty(u.Outstanding))
				assert.Equal(t, test.final, u.Final)
				assert.NotContains(t, text(t, out), "connection", "why is for the log")
				if test.left != nil {
					assert.ErrorContains(t, out.Err, "connection reset")
					assert.Contains(t, text(t, out), "Not undone: flight.")
				}
			})
		})
	}
}

func nonEmpty(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}

func TestHandledFailureIsRecorded(t *testing.T) {
	w := newWorld()
	w.fail = func(c string) error {
		if c == "do first" {
			return saga.Refused(errors.New("full"))
		}
		return nil
	}
	first, second := w.effect("first"), w.effect("second")
	var failures []string
	s := play(t, saga.Flow[empty, string]{
		Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{first, second}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Do(r, first, "a"); err != nil {
				failures = append(failures, err.Error())
				if _, err := saga.Do(r, second, "b"); err != nil {
					return "", err
				}
			}
			_, err := saga.Ask(r, askConfirm)
			return "done", err
		},
	})
	s.start(`{}`)
	w.fail = func(string) error { return nil } // it would work now, but the flow went another way
	assert.Equal(t, "done", text(t, s.answer(accept("confirm", yes))))
	assert.Equal(t, []string{"do first", "do second"}, w.log)
	assert.Equal(t, []string{`effect "first": full`, `effect "first": full`}, failures)
}

func TestMachinesHaveEffectsToo(t *testing.T) {
	w := newWorld()
	room := w.effect("room")
	type turn = saga.Turn[empty, empty]
	m := saga.Machine[empty, empty]{
		Info: saga.Info{Name: "m", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{room}},
		Start: func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, room, "1"); err != nil {
				return nil, err
			}
			return t.Ask("more", askConfirm)
		},
		Steps: saga.Steps[empty, empty]{"more": func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, room, "2"); err != nil {
				return nil, err
			}
			sure, err := askConfirm.Answer(t)
			if err != nil {
				return nil, err
			}
			if !sure.Sure {
				return nil, saga.Failf("not sure")
			}
			return t.Ask("more", askConfirm)
		}},
	}
	s := play(t, m)
	s.start(`{}`)
	s.answer(accept("confirm", yes))
	assert.Len(t, w.held, 2, "two effects of one name are two")
	out := s.answer(accept("confirm~2", `{"sure":false}`))
	assert.Empty(t, w.held)
	assert.Equal(t, []string{"room", "room", "room"}, report(t, out).Undone)
}

func TestFlowDivergingEffect(t *testing.T) {
	w := newWorld()
	e := w.effect("e")
	n := 0
	s := play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{e}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			n++
			if _, err := saga.Do(r, e, fmt.Sprint("input ", n)); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, askConfirm)
			return "", err
		}})
	s.start(`{}`)
	out := s.answer(accept("confirm", yes))
	assert.ErrorContains(t, out.Err, `recorded is effect "e" (number 1) with the input "input 1", but now came the same effect with the input "input 2"`)
	assert.Empty(t, w.held, "the saga has failed, so it is undone")
}

// An effect is declared as the value that it is: another one of the same name would be
// performed without what undoes the first.
func TestAnotherEffectOfADeclaredNameIsRefused(t *testing.T) {
	w := newWorld()
	declared, other := w.effect("room"), w.effect("room")
	s := play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{declared}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			_, err := saga.Do(r, other, "x")
			return "", err
		}})
	out := s.start(`{}`)
	assert.ErrorContains(t, out.Err, `effect "room" is not declared`)
	assert.Empty(t, w.log)
}

// A position that never left the process is as good as one from a token: what the last
// run came to, the next one has to come to again.
func TestEffectLeftOutByAFlowInOneProcess(t *testing.T) {
	w := newWorld()
	room, skip := w.effect("room"), false
	tool := play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{room}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if !skip {
				if _, err := saga.Do(r, room, "x"); err != nil {
					return "", err
				}
			}
			_, err := saga.Ask(r, askConfirm)
			return "done", err
		}}).tool
	out, err := tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures()})
	require.NoError(t, err)
	skip = true
	out, err = tool.Resume(t.Context(), out.Position, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
	require.NoError(t, err)
	assert.ErrorContains(t, out.Err, `recorded is effect "room", but now came the end of the flow`)
	assert.Empty(t, w.held)
}
