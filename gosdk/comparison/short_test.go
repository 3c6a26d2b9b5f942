package comparison_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/gosdk/comparison"
	"github.com/mcpsaga/mcpsaga/gosdk/comparison/byflow"
	"github.com/mcpsaga/mcpsaga/gosdk/comparison/bymachine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

type none struct{}

type targetForm struct {
	Target string `json:"target" enum:"staging|production"`
}

type sureForm struct {
	Sure bool `json:"sure"`
}

var (
	askTarget = &steps.Form[targetForm]{ID: "target", Message: "Where?"}
	askSure   = &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	script    = []sagatest.Answer{sagatest.Accept("target", targetForm{"staging"}), sagatest.Accept("sure", sureForm{true})}
)

// reserve is the effect of the tools with mistakes.
func reserve(c *comparison.Calendar) *saga.Effect[string, int] {
	return &saga.Effect[string, int]{
		Name: "reserve",
		Do: func(ctx context.Context, key saga.Key, target string) (int, error) {
			return c.Reserve(ctx, string(key), target)
		},
		Undo: func(ctx context.Context, p saga.Performed[string, int]) error {
			return c.Release(ctx, string(p.Key))
		},
	}
}

// A short version of the tool: it asks for the target, reserves, and asks again.
type (
	shortTurn    = saga.Turn[none, none]
	shortMachine = saga.Machine[none, none]
	shortFlow    = saga.Flow[none, string]
)

func machineOf(e *saga.Effect[string, int]) shortMachine {
	return shortMachine{
		Info:  saga.Info{Name: "deploy", Asks: []steps.Question{askTarget, askSure}, Effects: []saga.Declared{e}},
		Start: func(t *shortTurn) (saga.Next, error) { return t.Ask("chosen", askTarget) },
		Steps: saga.Steps[none, none]{
			"chosen": func(t *shortTurn) (saga.Next, error) {
				form, err := askTarget.Answer(t)
				if err != nil {
					return nil, err
				}
				if _, err := saga.Do(t, e, form.Target); err != nil {
					return nil, err
				}
				return t.Ask("confirmed", askSure)
			},
			"confirmed": func(t *shortTurn) (saga.Next, error) {
				if _, err := askSure.Answer(t); err != nil {
					return nil, err
				}
				return t.Textf("Deploying.")
			},
		},
	}
}

func flowOf(e *saga.Effect[string, int]) shortFlow {
	return shortFlow{
		Info: saga.Info{Name: "deploy", Asks: []steps.Question{askTarget, askSure}, Effects: []saga.Declared{e}},
		Run: func(r *saga.Run, _ none) (string, error) {
			form, err := saga.Ask(r, askTarget)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, e, form.Target); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askSure); err != nil {
				return "", err
			}
			return "Deploying.", nil
		},
	}
}

// caseOf is a tool with the calendar that it acts on. The tools are left with what a
// client does that uses one token twice: nothing is final in them.
func caseOf(tool func(c *comparison.Calendar) saga.Definition) sagatest.Case {
	return sagatest.Case{
		New: func(testing.TB) sagatest.Subject {
			var c comparison.Calendar
			return sagatest.Subject{Tool: tool(&c), World: func() any { return c.Reserved() }}
		},
		Script: script,
		Skip:   []string{"forks"},
	}
}

// swept sweeps a tool with a mistake and returns the reports.
func swept(t *testing.T, tool func(c *comparison.Calendar) saga.Definition) string {
	t.Helper()
	return reported(t, func(t testing.TB) { sagatest.Sweep(t, caseOf(tool)) })
}

// sweptWith sweeps the machine and the flow with an effect, and wants a report.
func sweptWith(t *testing.T, effect func(c *comparison.Calendar) *saga.Effect[string, int], want string) {
	t.Helper()
	tools := map[string]func(c *comparison.Calendar) saga.Definition{
		"machine": func(c *comparison.Calendar) saga.Definition { return machineOf(effect(c)) },
		"flow":    func(c *comparison.Calendar) saga.Definition { return flowOf(effect(c)) },
	}
	for name, tool := range tools {
		t.Run(name, func(t *testing.T) { assert.Contains(t, swept(t, tool), want) })
	}
}

// Without mistakes, the versions pass a sweep.
func TestSweep(t *testing.T) {
	tools := map[string]func(c *comparison.Calendar) saga.Definition{"machine": bymachine.New, "flow": byflow.New}
	for name, tool := range tools {
		t.Run(name, func(t *testing.T) {
			c := caseOf(tool)
			c.Args = map[string]any{"version": "v2"}
			c.Script = []sagatest.Answer{
				sagatest.Accept("target", targetForm{"staging"}), sagatest.Say("model", "Yes."), sagatest.Accept("confirm", sureForm{true}),
			}
			sagatest.Sweep(t, c)
		})
	}
}
