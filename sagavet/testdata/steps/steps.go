// Package steps has machines that name step functions, some of which do not exist.
package steps

import (
	"maps"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type form struct {
	Sure bool `json:"sure"`
}

type turn = saga.Turn[form, form]

type stepMap = saga.Steps[form, form]

var askSure = &steps.Form[form]{ID: "sure", Message: "Sure?"}

const second = "second"

var literal = saga.Machine[form, form]{
	Info: saga.Info{Name: "literal", Asks: []steps.Question{askSure}},
	Start: func(t *turn) (saga.Next, error) {
		if t.Args.Sure {
			return t.Goto("chose") // want `there is no step function "chose", so the saga fails when it comes here. Name one of the machine's Steps, which are chosen, later, second, third`
		}
		return t.Ask("chosen", askSure)
	},
	Steps: stepMap{
		"chosen": func(t *turn) (saga.Next, error) { return t.Pause("later") },
		"later":  func(t *turn) (saga.Next, error) { return t.Pause("latter") }, // want `no step function "latter"`
		second:   pauses,
	},
}

func init() { literal.Steps["third"] = again }

func again(t *turn) (saga.Next, error) { return helper(t, "x") }

func helper(t *turn, _ string) (saga.Next, error) {
	if t.State.Sure {
		return t.Goto("start")
	}
	return t.Ask("secnd", askSure) // want `no step function "secnd"`
}

func pauses(t *turn) (saga.Next, error) {
	switch {
	case t.Args.Sure:
		return t.Yield("part", content.Textf("x")) // want `no step function "part"`
	case t.State.Sure:
		return t.Sleep(time.Hour, "morning") // want `no step function "morning"`
	}
	return t.Until(time.Time{}, "evening") // want `no step function "evening"`
}

// A prompt that asks nothing needs no Steps.
var none = saga.Prompt[form, struct{}]{Machine: saga.Machine[form, struct{}]{
	Start: func(t *saga.Turn[form, struct{}]) (saga.Next, error) {
		if t.Args.Sure {
			return t.Messages()
		}
		return t.Ask("asked", askSure) // want `no step function "asked", .*The machine has no Steps`
	},
}}

// Nothing is said of names that were renamed or are not constant.
var renamed = saga.Machine[form, string]{
	Info:  saga.Info{Revision: 1, Renamed: map[string]string{"old": "new"}},
	Start: func(t *saga.Turn[form, string]) (saga.Next, error) { return t.Goto("old") },
	Steps: saga.Steps[form, string]{"new": func(t *saga.Turn[form, string]) (saga.Next, error) { return t.Goto("new" + t.State) }},
}

// Nor of machines whose step functions come from elsewhere.
func given(with saga.Steps[form, int]) saga.Machine[form, int] {
	return saga.Machine[form, int]{Steps: with, Start: func(t *saga.Turn[form, int]) (saga.Next, error) { return t.Goto("anything") }}
}

func copied(more map[string]func(*saga.Turn[form, bool]) (saga.Next, error)) saga.Definition {
	m := saga.Machine[form, bool]{Start: func(t *saga.Turn[form, bool]) (saga.Next, error) { return t.Goto("anything") }}
	m.Steps = make(saga.Steps[form, bool])
	maps.Copy(m.Steps, more)
	return m
}

func computed(name string) saga.Definition {
	m := saga.Machine[form, uint]{Start: func(t *saga.Turn[form, uint]) (saga.Next, error) { return t.Goto("anything") }}
	m.Steps[name] = nil
	return m
}

// A package without a machine says nothing of its step functions.
func shared(t *saga.Turn[int, int]) (saga.Next, error) { return t.Goto("anything") }
