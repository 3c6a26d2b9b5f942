package saga_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// program is a flow that is written as a list of what it does: "ask city", "do a",
// "do a=input", "now", "id", "rand"; with a ? before it, its error is swallowed.
func program(w *world, revision uint32, does string) saga.Flow[empty, string] {
	effects := map[string]*saga.Effect[string, hold]{"a": w.effect("a"), "b": w.effect("b"), "c": w.effect("c")}
	questions := map[string]*steps.Form[confirmForm]{}
	f := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: revision, Effects: []saga.Declared{effects["a"], effects["b"], effects["c"]}}}
	for _, id := range []string{"one", "two", "three"} {
		questions[id] = &steps.Form[confirmForm]{ID: id, Message: "?"}
		f.Asks = append(f.Asks, questions[id])
	}
	f.Run = func(r *saga.Run, _ empty) (string, error) {
		var seen []string
		for _, op := range strings.Split(does, ", ") {
			what, swallow := strings.CutPrefix(op, "?")
			verb, object, _ := strings.Cut(what, " ")
			var err error
			switch verb {
			case "ask":
				_, err = saga.Ask(r, questions[object])
			case "do":
				name, input, _ := strings.Cut(object, "=")
				_, err = saga.Do(r, effects[name], input)
			case "now":
				seen = append(seen, r.Now().Format("05"))
			case "id":
				seen = append(seen, r.NewID()[:4])
			case "rand":
				seen = append(seen, fmt.Sprint(r.Rand().IntN(100)))
			case "defer": // as a careless author does
				defer func() { _, _, _ = r.Now(), r.NewID(), r.Rand() }()
			}
			if err != nil && !swallow {
				return "", err
			}
		}
		return strings.Join(seen, " "), nil
	}
	return f
}

// replay suspends a saga with one program, after the answer to each of the given
// questions, and takes its last turn with another.
func replay(t *testing.T, now, changed string, revision uint32) (*engine.Outcome, []string) {
	t.Helper()
	w := newWorld()
	s := play(t, program(w, 0, now))
	out := s.start(`{}`)
	var last steps.Answer
	for len(out.Steps) > 0 {
		last = accept(out.Steps[0].ID, yes)
		if next, err := play(t, program(newWorld(), 0, now)).tool.Resume(context.Background(), s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{last}}); err != nil || next.Position == nil {
			break // it would end the saga: that is for the changed program
		}
		out = s.answer(last)
	}
	w.log = nil
	s.tool = play(t, program(w, revision, changed)).tool
	out, err := s.resume(last)
	require.NoError(t, err)
	return out, w.log
}

func TestReplaysDoNothingNewBeforeTheirRecord(t *testing.T) {
	tests := []struct{ name, recorded, replayed, diverges string }{
		{"nothing changed", "do a, ask one, do b, ask two, do c", "do a, ask one, do b, ask two, do c", ""},
		{"something new after the record", "do a, ask one, do b", "do a, ask one, do c, do b", ""},
		{"another order of what is recorded", "do a, do b, ask one, ask two, do c", "ask two, do b, ask one, do a, do c", ""},

		{"a new effect before a question", "do a, ask one", "do a, do b, ask one", `recorded is question "one", but now came effect "b", which is new`},
		{"a new effect before an effect", "ask one, do a, ask two", "ask one, do c, do a, ask two", `recorded is question "two", but now came effect "c", which is new`},
		{"a new effect in the place of one", "ask one, do a, ask two", "ask one, ask two, do b", `recorded is effect "a", but now came effect "b", which is new`},
		{"a second effect of one name", "do a, ask one", "do a, do a, ask one", `recorded is question "one", but now came effect "a", which is new`},
		{"a new effect whose error is swallowed", "do a, ask one", "do a, ?do b, ask one", `recorded is question "one", but now came effect "b", which is new`},
		{"an effect with another input", "do a=1, ask one", "do a=2, ask one", `recorded is effect "a" (number 1) with the input "1", but now came the same effect with the input "2"`},
		{"another input whose error is swallowed", "do a=1, ask one", "?do a=2, ask one, do b", `recorded is effect "a" (number 1) with the input "1", but now came the same effect with the input "2"`},
		{"all errors swallowed", "do a=1, ask one", "?do a=2, ?ask one, ?do b", `recorded is effect "a" (number 1) with the input "1", but now came the same effect with the input "2"`},
		{"two effects that have changed places", "do a=1, do a=2, ask one", "do a=2, do a=1, ask one", `with the input "1", but now came the same effect with the input "2"`},
		{"a removed effect", "do a, ask one", "ask one", `recorded is effect "a", but now came the end of the flow`},
		{"a removed effect before a new one", "do a, ask one", "ask one, do b", `recorded is effect "a", but now came effect "b", which is new`},
		{"a removed question", "ask one, do a, ask two", "do a, ask two, do b", `recorded is question "one", but now came effect "b", which is new`},
		{"a new question before a question", "ask one, ask two", "ask one, ask three, ask two", `recorded is question "two", but now came question "three"`},
		{"a new question before an effect", "ask one, do a, ask two", "ask one, ask three, do a, ask two", `but now came question "three"`},
		{"a new time", "do a, ask one", "do a, now, ask one", `recorded is question "one", but now came a call of "Now", which is new`},
		{"one more time", "now, do a, ask one", "now, now, do a, ask one", `recorded is question "one", but now came a call of "Now", which is new`},
		{"a time less", "now, now, ask one", "now, ask one, do b", `recorded is 2 calls of Now, Sleep and Until, but now came after 1 of them effect "b", which is new`},
		{"a time less at the end", "now, now, ask one", "now, ask one", `recorded is 2 calls of Now, Sleep and Until, but now came after 1 of them the end of the flow`},
		{"one more id", "id, ask one", "id, id, ask one", `recorded is question "one", but now came a call of "NewID", which is new`},
		{"a new source of random numbers", "id, ask one", "id, rand, ask one", `recorded is question "one", but now came a call of "Rand", which is new`},
		{"an id less", "id, rand, ask one", "id, ask one, do c", `recorded is 2 calls of NewID and Rand, but now came after 1 of them effect "c", which is new`},
		{"times and ids after the suspension count for nothing", "defer, now, id, ask one, do a", "defer, now, id, ask one, do a", ""},
		{"times and ids that only come after the record", "ask one, do a", "ask one, now, id, rand, do a", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, log := replay(t, test.recorded, test.replayed, 0)
			if test.diverges == "" {
				require.NoError(t, out.Err)
				return
			}
			var diverged *engine.DivergedError
			require.ErrorAs(t, out.Err, &diverged)
			assert.Contains(t, out.Err.Error(), test.diverges)
			assert.True(t, out.Result.IsError)
			for _, call := range log {
				assert.Regexp(t, "^undo . true$", call, "nothing is performed, and what was not begun is not undone")
			}
		})
	}
	t.Run("what is new says what to do", func(t *testing.T) {
		out, _ := replay(t, "ask one, ask two", "ask one, ask three, ask two", 0)
		assert.ErrorContains(t, out.Err, "if the code asks or does anything differently than before, raise the tool's Revision")
	})
	t.Run("in a new revision, what is new is done when the flow comes to it", func(t *testing.T) {
		out, log := replay(t, "now, id, do a, ask one, do b, ask two", "do c, now, now, id, rand, do a, ask two", 1)
		require.NoError(t, out.Err)
		assert.Equal(t, []string{"do c"}, log)
	})
	t.Run("in a new revision, an effect keeps its input", func(t *testing.T) {
		out, log := replay(t, "do a=1, ask one", "do a=2, ask one", 1)
		assert.ErrorContains(t, out.Err, `now came the same effect with the input "2"; the n-th performance of an effect keeps its input, also in a new revision`)
		assert.NotContains(t, out.Err.Error(), "raise")
		assert.Equal(t, []string{"undo a true"}, log)
	})
}

// The record once did not say how many times and ids were taken.
func TestRecordsWithoutCounts(t *testing.T) {
	w := newWorld()
	s := play(t, program(w, 0, "now, id, ask one, now, id, do a"))
	s.start(`{}`)
	e := s.pos.Encode()
	require.Equal(t, []byte{1, 1}, e.Body[len(e.Body)-2:], "a time and an id")
	e.Body = e.Body[:len(e.Body)-2]
	require.NoError(t, s.pos.Restore(e))
	out, err := s.resume(accept("one", yes))
	require.NoError(t, err)
	require.NoError(t, out.Err)
	assert.Equal(t, []string{"do a"}, w.log)

	s.tool = play(t, program(w, 0, "now, now, id, ask one")).tool
	out, err = s.resume(accept("one", yes))
	require.NoError(t, err)
	assert.ErrorContains(t, out.Err, `a call of "Now", which is new`)
}

// What was asked of one client and answered is not asked of the next, whatever that
// one can do.
func TestAnsweredAlternativesStay(t *testing.T) {
	askMap := &steps.Form[cityForm]{ID: "map", Message: "Where?"}
	askModel := &steps.Sample{ID: "model", Request: steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("?")}}}
	var which []string
	f := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askMap, askModel, askConfirm}}, Run: func(r *saga.Run, _ empty) (string, error) {
		which = nil
		for range 2 {
			if err := r.AskAll(steps.Otherwise(askModel, askMap)); err != nil {
				return "", err
			}
			if _, err := askMap.Answer(r); err == nil {
				which = append(which, "map")
			}
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
		}
		return "done", nil
	}}
	s := play(t, f)
	take := func(client steps.Features, a steps.Answer) *engine.Outcome {
		out, err := s.tool.Resume(context.Background(), s.pos, engine.Call{Now: testNow, Client: client, Answers: []steps.Answer{a}})
		require.NoError(t, err)
		s.keep(out)
		return out
	}
	said := steps.Answer{StepID: "model", Result: []byte(`{"role":"assistant","content":{"type":"text","text":"Rome"},"model":"m"}`)}
	out, err := s.tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow, Client: steps.Features{Forms: true}})
	require.NoError(t, err)
	s.keep(out)
	assert.Equal(t, []string{"map"}, ids(out))
	assert.Equal(t, []string{"confirm"}, ids(take(steps.AllFeatures(), accept("map", goodCity))), "a client that could have been asked the first")
	assert.Equal(t, []string{"model"}, ids(take(steps.AllFeatures(), accept("confirm", yes))))
	assert.Equal(t, []string{"confirm~2"}, ids(take(steps.Features{Forms: true}, said)), "a client that could not have been asked the first")
	assert.Equal(t, "done", text(t, take(steps.Features{Forms: true}, accept("confirm~2", yes))))
	assert.Equal(t, []string{"map", "map"}, which, "the map's answer is its latest until the end")

	t.Run("the other way round", func(t *testing.T) {
		out, err := s.tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures()})
		require.NoError(t, err)
		s.keep(out)
		assert.Equal(t, []string{"model"}, ids(out))
		assert.Equal(t, []string{"confirm"}, ids(take(steps.Features{Forms: true}, said)))
		assert.Equal(t, []string{"map"}, ids(take(steps.Features{Forms: true}, accept("confirm", yes))))
		assert.Equal(t, []string{"confirm~2"}, ids(take(steps.AllFeatures(), accept("map", goodCity))))
		assert.Equal(t, "done", text(t, take(steps.AllFeatures(), accept("confirm~2", yes))))
		assert.Equal(t, []string{"map"}, which)
	})
}
