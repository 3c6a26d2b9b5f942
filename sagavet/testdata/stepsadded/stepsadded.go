// Package stepsadded has machines that get step functions later, one by one or as a whole.
package stepsadded

import "github.com/mcpsaga/mcpsaga/saga"

type (
	form struct{}
	turn = saga.Turn[form, form]
	list = saga.Steps[form, form]
)

func machine() saga.Machine[form, form] {
	m := saga.Machine[form, form]{
		Start: func(t *turn) (saga.Next, error) { return t.Goto("added") },
		Steps: list{"is": func(t *turn) (saga.Next, error) { return t.Goto("missing") }}, // want `no step function "missing"`
	}
	m.Steps["added"] = func(t *turn) (saga.Next, error) { return t.Textf("done") }
	return m
}

func begin(t *turn) (saga.Next, error) { return t.Goto("assigned") }
func wrong(t *turn) (saga.Next, error) { return t.Goto("absent") } // want `there is no step function "absent"`

func build() saga.Definition {
	m := saga.Machine[form, form]{Start: begin}
	m.Steps = list{"assigned": wrong}
	return m
}

func other() saga.Definition {
	m := saga.Machine[form, form]{Start: begin, Steps: list{"assigned": wrong}}
	return m
}
