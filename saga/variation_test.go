package saga_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A question that only has the id of a declared one is another question: its answer
// would be checked against the wrong form.
func TestQuestionsOfTheSameIDAreToldApart(t *testing.T) {
	askPage := &steps.Link{ID: "page", Message: "Please sign in."}
	others := map[string]steps.Request{
		"another form":             &steps.Form[cityForm]{ID: "city", Message: "Which town?"},
		"an instance of another":   (&steps.Form[dateForm]{ID: "city", Message: "When?"}).Nth(2),
		"another kind":             &steps.RootsList{ID: "city"},
		"a variation of a kind":    (&steps.Sample{ID: "city", Request: steps.SampleRequest{MaxTokens: 1}}).With(steps.Promptf("Where?")),
		"one that cannot be asked": &steps.Link{ID: "page", Message: "Please sign in.", URL: "https://example.com/"},
	}
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			m := saga.Machine[empty, empty]{Info: saga.Info{Name: "x", Asks: []steps.Question{askCity, askPage}},
				Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Ask("end", other) },
				Steps: saga.Steps[empty, empty]{"end": func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Textf("done") }},
			}
			out := play(t, m).start(`{}`)
			assert.ErrorContains(t, out.Err, "is another one than the tool's Asks have under this id")
			f := saga.Flow[empty, string]{Info: saga.Info{Name: "x", Asks: m.Asks}, Run: func(r *saga.Run, _ empty) (string, error) { return "done", r.AskAll(other) }}
			out = play(t, f).start(`{}`)
			assert.ErrorContains(t, out.Err, "is another one than the tool's Asks have under this id")
		})
	}
	t.Run("the declared ones, varied or not", func(t *testing.T) {
		f := saga.Flow[empty, string]{Info: saga.Info{Name: "x", Asks: []steps.Question{askCity, askPage}}, Run: func(r *saga.Run, _ empty) (string, error) {
			return "done", r.AskAll(askCity, askCity.Nth(1), askCity.Nth(2).With(steps.Message("Where else?")), askPage.With(steps.URL("https://example.com/")))
		}}
		assert.Equal(t, []string{"city", "city#1", "city#2", "page"}, ids(play(t, f).start(`{}`)))
	})
}

// What is asked and what is read cannot be two things.
func TestVariationsBringTheirOwnAnswer(t *testing.T) {
	f := saga.Flow[empty, string]{Info: saga.Info{Name: "x", Asks: []steps.Question{askCity}}, Run: func(r *saga.Run, _ empty) (string, error) {
		first, err := saga.Ask(r, askCity.With(steps.Message("Where from?")))
		if err != nil {
			return "", err
		}
		second, err := saga.Ask(r, askCity.Nth(2).With(steps.Message("Where to?")))
		if err != nil {
			return "", err
		}
		return first.City + " to " + second.City, nil
	}}
	s := play(t, f)
	assert.Contains(t, string(s.start(`{}`).Steps[0].Params), "Where from?")
	assert.Contains(t, string(s.answer(accept("city", goodCity)).Steps[0].Params), "Where to?")
	assert.Equal(t, "Rome to Bern", text(t, s.answer(accept("city#2", `{"city":"Bern"}`))))
}
