// Package stepsagain has a variable of steps that is set twice: nothing is said of it.
package stepsagain

import "github.com/mcpsaga/mcpsaga/saga"

type (
	none struct{}
	turn = *saga.Turn[none, none]
	list = saga.Steps[none, none]
)

func begin(t turn) (saga.Next, error) { return t.Goto("a") }
func last(t turn) (saga.Next, error)  { return t.Textf("done") }

func build(other bool, fetch func() list) saga.Definition {
	steps := list{"b": last}
	if other {
		steps = fetch()
	}
	return saga.Machine[none, none]{Start: begin, Steps: steps}
}
