package sagatest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A tool that keeps what it has learned in a variable instead of its state works as long as one process
// takes all turns. A sweep has them taken by several.
func TestSweepFindsMemoryBesideTheState(t *testing.T) {
	type name struct {
		Name string `json:"name"`
	}
	first, second := &steps.Form[name]{ID: "first", Message: "First?"}, &steps.Form[name]{ID: "second", Message: "Second?"}
	type turn = saga.Turn[struct{}, name]
	sweep := func(remember func(t *turn, kept *string, said string), recall func(t *turn, kept *string) string) string {
		c := sagatest.Case{Args: struct{}{}, Script: []sagatest.Answer{sagatest.Accept("first", name{"Ada"}), sagatest.Accept("second", name{"Bo"})}, New: func(testing.TB) sagatest.Subject {
			var kept string
			return sagatest.Subject{Tool: saga.Machine[struct{}, name]{
				Info:  saga.Info{Name: "names", Asks: []steps.Question{first, second}},
				Start: func(t *turn) (saga.Next, error) { return t.Ask("one", first) },
				Steps: saga.Steps[struct{}, name]{
					"one": func(t *turn) (saga.Next, error) {
						a, err := first.Answer(t)
						if err != nil {
							return nil, err
						}
						remember(t, &kept, a.Name)
						return t.Ask("two", second)
					},
					"two": func(t *turn) (saga.Next, error) {
						a, err := second.Answer(t)
						if err != nil {
							return nil, err
						}
						return t.Textf("%s and %s", recall(t, &kept), a.Name)
					},
				},
			}}
		}}
		return strings.Join(reported(t, func(t testing.TB) { sagatest.Sweep(t, c) }).errors, "\n")
	}
	beside := sweep(func(_ *turn, kept *string, said string) { *kept = said }, func(_ *turn, kept *string) string { return *kept })
	assert.Contains(t, beside, "broken rule: nothing survives between two turns but the token")
	assert.Contains(t, beside, "keep what a later turn needs in the state")
	within := sweep(func(t *turn, _ *string, said string) { t.State.Name = said }, func(t *turn, _ *string) string { return t.State.Name })
	assert.Empty(t, within)
}
