// Package stepsassigned has steps that are assigned as a whole: they count.
package stepsassigned

import "github.com/mcpsaga/mcpsaga/saga"

type (
	none struct{}
	turn = *saga.Turn[none, none]
	list = saga.Steps[none, none]
)

func begin(t turn) (saga.Next, error) { return t.Goto("a") }
func wrong(t turn) (saga.Next, error) { return t.Goto("c") } // want `there is no step function "c"`

func build() saga.Definition {
	m := saga.Machine[none, none]{Start: begin}
	m.Steps = list{"a": wrong}
	return m
}

func other() saga.Definition {
	m := saga.Machine[none, none]{Start: begin, Steps: list{"a": wrong}}
	return m
}
