package saga_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// worded is a tool, as a flow and as a machine, that asks two things at once and then
// for a confirmation, the city and the confirmation in the given words. Words that are
// varied travel with the saga.
func worded(city, confirm string, varied bool) map[string]saga.Definition {
	askCity := &steps.Form[cityForm]{ID: "city", Message: "Which city?"}
	askConfirm := &steps.Form[confirmForm]{ID: "confirm", Message: "Sure?"}
	asCity, asConfirm := steps.Request(askCity), steps.Request(askConfirm)
	if varied {
		asCity, asConfirm = askCity.With(steps.Message(city)), askConfirm.With(steps.Message(confirm))
	} else {
		askCity.Message, askConfirm.Message = city, confirm
	}
	asks := []steps.Question{askCity, askDate, askConfirm}
	type turn = saga.Turn[empty, struct{ City string }]
	return map[string]saga.Definition{
		"flow": saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: asks}, Run: func(r *saga.Run, _ empty) (string, error) {
			if err := r.AskAll(asCity, askDate); err != nil {
				return "", err
			}
			where, err := askCity.Answer(r)
			if err != nil {
				return "", err
			}
			if err := r.AskAll(asConfirm); err != nil {
				return "", err
			}
			_, err = askConfirm.Answer(r)
			return where.City, err
		}},
		"machine": saga.Machine[empty, struct{ City string }]{Info: saga.Info{Name: "f", Asks: asks},
			Start: func(t *turn) (saga.Next, error) { return t.Ask("where", asCity, askDate) },
			Steps: saga.Steps[empty, struct{ City string }]{
				"where": func(t *turn) (saga.Next, error) {
					where, err := askCity.Answer(t)
					if err != nil {
						return nil, err
					}
					t.State.City = where.City
					return t.Ask("end", asConfirm)
				},
				"end": func(t *turn) (saga.Next, error) {
					if _, err := askConfirm.Answer(t); err != nil {
						return nil, err
					}
					return t.Textf("%s", t.State.City)
				},
			}},
	}
}

// A question that gets other words while it waits is asked anew, and only that.
func TestWaitingQuestionInOtherWords(t *testing.T) {
	bern := `{"city":"Bern"}`
	for kind := range worded("", "", true) {
		t.Run(kind+": declared, before any answer", func(t *testing.T) {
			s := play(t, worded("Which city?", "Sure?", false)[kind])
			s.start(`{}`)
			s.tool = play(t, worded("Which town?", "Sure?", false)[kind]).tool
			out := s.answer(accept("city", goodCity), accept("date", goodDate))
			require.Equal(t, []string{"city~2"}, ids(out))
			assert.Equal(t, []string{"city"}, out.Reworded)
			assert.Contains(t, string(out.Steps[0].Params), "Which town?")
			out = s.answer(accept("city~2", bern))
			assert.Equal(t, []string{"confirm"}, ids(out))
			assert.Empty(t, out.Reworded)
			assert.Equal(t, "Bern", text(t, s.answer(accept("confirm", yes))))
		})
		t.Run(kind+": declared, after its answer was kept", func(t *testing.T) {
			s := play(t, worded("Which city?", "Sure?", false)[kind])
			s.start(`{}`)
			s.answer(accept("city", goodCity)) // the date is missing
			s.tool = play(t, worded("Which town?", "Sure?", false)[kind]).tool
			require.Equal(t, []string{"city~2"}, ids(s.answer(accept("date", goodDate))))
			assert.Equal(t, []string{"confirm"}, ids(s.answer(accept("city~2", bern))))
			assert.Equal(t, "Bern", text(t, s.answer(accept("confirm", yes))))
		})
		t.Run(kind+": declared, where it is not answered yet", func(t *testing.T) {
			s := play(t, worded("Which city?", "Sure?", false)[kind])
			s.start(`{}`)
			s.tool = play(t, worded("Which town?", "Sure?", false)[kind]).tool
			require.Equal(t, []string{"city~2"}, ids(s.answer(accept("date", goodDate))))
			assert.Equal(t, []string{"confirm"}, ids(s.answer(accept("city~2", bern))))
		})
	}
	for _, partly := range []bool{false, true} {
		t.Run(fmt.Sprintf("varied by a flow, answered in parts: %v", partly), func(t *testing.T) {
			s := play(t, worded("From Oslo to?", "Sure?", true)["flow"])
			s.start(`{}`)
			if partly {
				require.Equal(t, []string{"date"}, ids(s.answer(accept("city", goodCity))))
			}
			s.tool = play(t, worded("Where to from Oslo?", "Sure?", true)["flow"]).tool
			out := s.answer(accept("city", goodCity), accept("date", goodDate))
			require.Equal(t, []string{"city~2"}, ids(out), "the date's answer is kept")
			assert.Equal(t, []string{"city"}, out.Reworded)
			assert.Contains(t, string(out.Steps[0].Params), "Where to from Oslo?")
			assert.NotContains(t, string(out.Position.Encode().Body), "Rome", "an answer to other words is not carried further")
			assert.Equal(t, []string{"confirm"}, ids(s.answer(accept("city~2", bern))))
			s.tool = play(t, worded("Where to from Oslo?", "Really?", true)["flow"]).tool
			require.Equal(t, []string{"confirm~2"}, ids(s.answer(accept("confirm", yes))))
			assert.Equal(t, "Bern", text(t, s.answer(accept("confirm~2", yes))))
		})
	}
	t.Run("varied by a machine: what was asked is what is answered", func(t *testing.T) {
		s := play(t, worded("From Oslo to?", "Sure?", true)["machine"])
		s.start(`{}`)
		s.tool = play(t, worded("Where to from Oslo?", "Sure?", true)["machine"]).tool
		assert.Equal(t, []string{"confirm"}, ids(s.answer(accept("city", goodCity), accept("date", goodDate))))
	})
	t.Run("varied by a flow, and declined in the old words", func(t *testing.T) {
		s := play(t, worded("From Oslo to?", "Sure?", true)["flow"])
		s.start(`{}`)
		s.tool = play(t, worded("Where to from Oslo?", "Sure?", true)["flow"]).tool
		assert.Equal(t, []string{"city~2"}, ids(s.answer(action("city", "decline"), accept("date", goodDate))))
	})
	t.Run("answered in an earlier turn, in a flow", func(t *testing.T) {
		s := play(t, worded("From Oslo to?", "Sure?", true)["flow"])
		s.start(`{}`)
		s.answer(accept("city", goodCity), accept("date", goodDate))
		s.tool = play(t, worded("Where to from Oslo?", "Sure?", true)["flow"]).tool
		out := s.answer(accept("confirm", yes))
		var diverged *engine.DivergedError
		require.ErrorAs(t, out.Err, &diverged, "the flow has gone on from that answer")
		assert.ErrorContains(t, diverged, `recorded is question "city" in other words`)
	})
}

// A flow whose words depend on chance would ask for ever.
func TestWordsThatAlwaysChange(t *testing.T) {
	n := 0
	s := play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm, askCity}}, Run: func(r *saga.Run, _ empty) (string, error) {
		if _, err := saga.Ask(r, askCity); err != nil {
			return "", err
		}
		n++
		_, err := saga.Ask(r, askConfirm.With(steps.Message(fmt.Sprint("Sure? ", n))))
		return "", err
	}})
	s.start(`{}`)
	assert.Equal(t, []string{"confirm"}, ids(s.answer(accept("city", goodCity))))
	assert.Equal(t, []string{"confirm~2"}, ids(s.answer(accept("confirm", yes))))
	assert.Equal(t, []string{"confirm~3"}, ids(s.answer(accept("confirm~2", yes))))
	out := s.answer(accept("confirm~3", yes))
	assert.ErrorContains(t, out.Err, `recorded is question "confirm" in other words, but now came the same question as`)
	assert.ErrorContains(t, out.Err, "Sure? 4")
	assert.NotContains(t, text(t, out), "confirm")
}

// What was asked anew before an answer does not count against the question later.
func TestRewordedInTwoRounds(t *testing.T) {
	rounds := func(words ...string) saga.Definition {
		return saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}}, Run: func(r *saga.Run, _ empty) (string, error) {
			for _, w := range words {
				if _, err := saga.Ask(r, askConfirm.With(steps.Message(w))); err != nil {
					return "", err
				}
			}
			return "done", nil
		}}
	}
	s := play(t, rounds("a", "x"))
	out := s.start(`{}`)
	for _, words := range [][]string{{"b", "x"}, {"c", "x"}, {"c", "x"}, {"c", "y"}, {"c", "z"}} {
		s.tool = play(t, rounds(words...)).tool
		out = s.answer(accept(ids(out)[0], yes))
		require.Len(t, out.Steps, 1, "%v", words)
	}
	assert.Equal(t, "done", text(t, s.answer(accept(ids(out)[0], yes))))
}

// Each new version may ask anew, also where a loop asks the same question again.
func TestRewordedInALoop(t *testing.T) {
	loop := func(words string) saga.Definition {
		return saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}}, Run: func(r *saga.Run, _ empty) (string, error) {
			for i := range 5 {
				as := askConfirm.With(steps.Message(fmt.Sprintf("%s %d", words, i)))
				if i < 4 {
					as = askConfirm.With(steps.Message("Sure?"))
				}
				if _, err := saga.Ask(r, as); err != nil {
					return "", err
				}
			}
			return "done", nil
		}}
	}
	s := play(t, loop("v1"))
	out := s.start(`{}`)
	for range 4 {
		out = s.answer(accept(ids(out)[0], yes))
	}
	for _, words := range []string{"v2", "v3"} {
		s.tool = play(t, loop(words)).tool
		out = s.answer(accept(ids(out)[0], yes))
		require.Len(t, out.Steps, 1)
		assert.Contains(t, string(out.Steps[0].Params), words+" 4")
	}
	assert.Equal(t, "done", text(t, s.answer(accept(ids(out)[0], yes))))
}
