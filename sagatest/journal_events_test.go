package sagatest_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// paying is a case in which the payment happens so.
func paying(answer sagatest.Answer, fails bool) sagatest.Case {
	return sagatest.Case{Fails: fails, Script: []sagatest.Answer{sagatest.Accept("sure", struct{}{}), answer}, New: func(testing.TB) sagatest.Subject {
		return newCounter(saga.Tasks{})
	}}
}

func TestJournalOfEvents(t *testing.T) {
	five := sagatest.Accept("paid", payment{5})
	for name, test := range map[string]struct {
		answer sagatest.Answer
		fails  bool
	}{"delivered": {five, false}, "later": {five.Later(50 * time.Minute), false}, "rejected": {sagatest.Decline("paid"), true}, "too late": {five.Later(2 * time.Hour), true}} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			c := paying(test.answer, test.fails)
			assert.Contains(t, journal(t, c, false), `lacks the suspension at "paid"`)
			require.Empty(t, journal(t, c, true))
			require.Len(t, files(t), 2)
			assert.Contains(t, files(t)[1], "02-paid.json")
			var scenarios []string
			c.Check = func(_ testing.TB, p *sagatest.Played) { scenarios = append(scenarios, p.Scenario) }
			assert.Empty(t, journal(t, c, false))
			early := slices.ContainsFunc(scenarios, func(s string) bool { return strings.Contains(s, "when all has happened that it will wait for") })
			assert.True(t, early, scenarios)
		})
	}
}

// The tool asks for the payment no longer, but sagas of its users wait for it.
func TestJournalOfEventsThatTheScriptLacks(t *testing.T) {
	type turn = saga.Turn[struct{}, struct{}]
	tool := func(change func(m *saga.Machine[struct{}, struct{}])) saga.Definition {
		m := saga.Machine[struct{}, struct{}]{Info: saga.Info{Name: "pay", Asks: []steps.Question{paid}}, Start: func(t *turn) (saga.Next, error) { return t.Ask("paid", paid) },
			Steps: saga.Steps[struct{}, struct{}]{"paid": func(t *turn) (saga.Next, error) {
				p, err := paid.Answer(t)
				if err != nil {
					return t.Textf("%v", err)
				}
				return t.Textf("paid %d", p.Amount)
			}}}
		if change != nil {
			change(&m)
		}
		return m
	}
	for name, test := range map[string]struct {
		answer sagatest.Answer
		result string
	}{
		"delivered": {sagatest.Accept("paid", payment{5}), "paid 5"}, "rejected": {sagatest.Decline("paid"), "declined"},
		"too late": {sagatest.Accept("paid", payment{5}).Later(2 * time.Hour), "has not happened in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			require.Empty(t, journal(t, sagatest.Case{Tool: tool(nil), Script: []sagatest.Answer{test.answer}}, true))
			require.Len(t, files(t), 1)
			raw, err := os.ReadFile(files(t)[0])
			require.NoError(t, err)
			assert.Contains(t, string(raw), `"says": "Waiting for the payment."`)
			assert.Contains(t, string(raw), test.result)
			later := sagatest.Case{Tool: tool(func(m *saga.Machine[struct{}, struct{}]) {
				m.Start = func(t *turn) (saga.Next, error) { return t.Textf("free") }
			})}
			assert.Empty(t, journal(t, later, false))
		})
	}
}
