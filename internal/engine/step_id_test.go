package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/steps"
)

func TestStepsKnowTheirIDs(t *testing.T) {
	for _, repeat := range []int{0, 1, 2, 11, 1000} {
		p := pendingStep{id: "go", repeat: repeat}
		assert.True(t, p.is(p.stepID()))
		for _, other := range []string{"", "g", "go", "go~", "go~1", "go~2", "go~02", "go~3", "go~12", "go~12 ", "go~1001", "go#2", "goo", "no~2"} {
			assert.Equal(t, other == p.stepID(), p.is(other), "%q and %q", other, p.stepID())
		}
	}
}

func TestDigestsOfDeclaredQuestionsAreKnown(t *testing.T) {
	type form struct {
		Name string `json:"name"`
	}
	q := &steps.Form[form]{ID: "q", Message: "Who?"}
	tool := &Program{declared: map[string]*wording{"q": wordingOf(q), "open": wordingOf(&steps.Sample{ID: "open"})}}
	assert.Nil(t, tool.declared["open"], "it has no messages yet")
	for _, ask := range []steps.Request{q, q.Nth(3), q.With(steps.Message("Who is it?")), &steps.Form[form]{ID: "other", Message: "Who?"}} {
		s, err := ask.Step()
		assert.NoError(t, err)
		assert.Equal(t, digest(s.Params), tool.digest(&s))
	}
}
