// Package steps has machines that name step functions, some of which do not exist.
package steps

import (
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

var literal = saga.Machine[form, form]{
	Info: saga.Info{Name: "literal", Asks: []steps.Question{askSure}},
	Start: func(t *turn) (saga.Next, error) {
		if t.Args.Sure {
			return t.Goto("chose") // want `there is no step function "chose" to go on, so the saga fails when it comes here. Name one of the machine's Steps, which are chosen, later`
		}
		return t.Ask("chosen", askSure)
	},
	Steps: stepMap{
		"chosen": func(t *turn) (saga.Next, error) { return t.Pause("later") },
		"later":  func(t *turn) (saga.Next, error) { return t.Pause("latter") }, // want `no step function "latter"`
	},
}

const second = "second"

var functions = saga.Machine[form, form]{Info: saga.Info{Name: "functions"}, Start: first, Steps: named}

var named = stepMap{second: again, "third": methods{}.third}

func first(t *turn) (saga.Next, error) { return t.Ask(second, askSure) }

func again(t *turn) (saga.Next, error) { return helper(t, "x") }

func helper(t *turn, _ string) (saga.Next, error) {
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

var pausing = saga.Machine[form, form]{Start: pauses, Steps: stepMap{"go": pauses}}

type methods struct{}

func (methods) third(t *turn) (saga.Next, error) {
	last := func() (saga.Next, error) { return t.Goto("fourth") } // want `no step function "fourth"`
	if t.State.Sure {
		return t.Goto("start")
	}
	return last()
}

// A function of two machines must suit both.
var (
	one   = saga.Machine[form, form]{Start: both, Steps: stepMap{"a": both}}
	other = saga.Machine[form, form]{Start: both, Steps: stepMap{"b": both}}
)

func both(t *turn) (saga.Next, error) {
	return t.Ask("a", askSure) // want `no step function "a"`
}

// Nothing else is said of names that were renamed, are not constant or are added.
var renamed = saga.Machine[form, form]{
	Info:  saga.Info{Revision: 1, Renamed: map[string]string{"old": "new"}},
	Start: func(t *turn) (saga.Next, error) { return t.Goto("old") },
	Steps: stepMap{"new": func(t *turn) (saga.Next, error) { return t.Goto("new" + t.Args.text()) }},
}

func (f form) text() string { return "" }

var none = saga.Prompt[form, form]{Machine: saga.Machine[form, form]{
	Start: func(t *turn) (saga.Next, error) {
		return t.Ask("asked", askSure) // want `no step function "asked" to go on, .*The machine has no Steps`
	},
}}

func made(with stepMap) saga.Machine[form, form] {
	return saga.Machine[form, form]{Steps: with, Start: func(t *turn) (saga.Next, error) { return t.Goto("anything") }}
}

// A prompt that asks nothing has no Steps, and says nothing of machines.
var greeting = saga.Prompt[form, form]{Machine: saga.Machine[form, form]{
	Info:  saga.Info{Name: "greeting"},
	Start: func(t *turn) (saga.Next, error) { return t.Messages() },
}}

var asking = saga.Prompt[form, form]{Machine: saga.Machine[form, form]{
	Info:  saga.Info{Name: "asking", Asks: []steps.Question{askSure}},
	Start: func(t *turn) (saga.Next, error) { return t.Ask("nowhere", askSure) }, // want `no step function "nowhere" to go on, so the saga fails when it comes here. The machine has no Steps`
}}
