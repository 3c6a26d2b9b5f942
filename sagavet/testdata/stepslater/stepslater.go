// Package stepslater has machines whose steps are not all in their literals: nothing is
// said of them.
package stepslater

import (
	"maps"

	"github.com/mcpsaga/mcpsaga/saga"
)

type (
	none struct{}
	turn = *saga.Turn[none, none]
	list = saga.Steps[none, none]
)

func begin(t turn) (saga.Next, error)  { return t.Goto("later") }
func later(t turn) (saga.Next, error)  { return t.Textf("done") }
func begin2(t turn) (saga.Next, error) { return t.Goto("copied") }

func assigned() saga.Definition {
	m := saga.Machine[none, none]{Start: begin}
	m.Steps = list{"later": later}
	return m
}

func copied(more list) saga.Definition {
	m := saga.Machine[none, none]{Start: begin2, Steps: list{"later": later}}
	maps.Copy(m.Steps, more)
	return m
}
