package sagatest_test

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A consent that comes when all is done that it can be for is reported, unless that can be undone.
func TestSweepFindsConsentsThatComeLast(t *testing.T) {
	start := &steps.Form[struct{}]{ID: "start", Message: "Begin?"}
	agree := &steps.Form[struct{}]{ID: "agree", Message: "Send it?", Consent: true}
	then := &steps.Form[struct{}]{ID: "then", Message: "And now?"}
	for name, test := range map[string]struct {
		order string // of start, agree, then and the effect
		undo  bool
		skip  string
		finds bool
	}{
		"before the effect":             {"start agree send then", false, "", false},
		"beside what comes before it":   {"agree send then", false, "", false},
		"after the effect":              {"start send agree", false, "", true},
		"after the effect, as is meant": {"start send agree", false, "consents", false},
		"after one that can be undone":  {"start send agree", true, "", false},
		"before another effect":         {"start send agree send", false, "", false},
		"asked for again":               {"start agree send then agree", false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			made := func(testing.TB) sagatest.Subject {
				sent := map[saga.Key]bool{}
				send := &saga.Effect[string, string]{
					Name: "send", Irreversible: !test.undo,
					Do: func(_ context.Context, k saga.Key, in string) (string, error) { sent[k] = true; return in, nil },
				}
				if test.undo {
					send.Undo = func(_ context.Context, p saga.Performed[string, string]) error { delete(sent, p.Key); return nil }
				}
				questions := map[string]*steps.Form[struct{}]{"start": start, "agree": agree, "then": then}
				return sagatest.Subject{World: func() any { return len(sent) }, Tool: saga.Flow[struct{}, string]{
					Info: saga.Info{Name: "send", Asks: []steps.Question{start, agree, then}, Effects: []saga.Declared{send}},
					Run: func(r *saga.Run, _ struct{}) (out string, err error) {
						for _, what := range strings.Fields(test.order) {
							if q := questions[what]; q != nil {
								_, err = saga.Ask(r, q)
							} else {
								_, err = saga.Do(r, send, "a letter")
							}
							if err != nil {
								return "", err
							}
						}
						return "sent", nil
					},
				}}
			}
			var script []sagatest.Answer
			for _, what := range strings.Fields(test.order) {
				if what != "send" {
					script = append(script, sagatest.Accept(what, struct{}{}))
				}
			}
			f := reported(t, func(t testing.TB) {
				sagatest.Sweep(t, sagatest.Case{New: made, Script: script, Skip: []string{
					"cancels", "crashes", "duplicates", "events", "expiries", "failures", "forks", "losses", "refusals", "routes", "stops", "tasks", cmp.Or(test.skip, "tasks"),
				}})
			})
			const rule = "broken rule: a consent comes before what it is for"
			assert.Equal(t, test.finds, strings.Contains(strings.Join(f.errors, "\n"), rule), "%s", f.errors)
			assert.Len(t, f.errors, map[bool]int{true: 1}[test.finds])
		})
	}
}
