// Package stepsadded has a machine that gets a step function later.
package stepsadded

import "github.com/mcpsaga/mcpsaga/saga"

type form struct{}

type turn = saga.Turn[form, form]

func machine() saga.Machine[form, form] {
	m := saga.Machine[form, form]{
		Start: func(t *turn) (saga.Next, error) { return t.Goto("added") },
		Steps: saga.Steps[form, form]{"is": func(t *turn) (saga.Next, error) { return t.Goto("missing") }}, // want `no step function "missing"`
	}
	m.Steps["added"] = func(t *turn) (saga.Next, error) { return t.Textf("done") }
	return m
}
