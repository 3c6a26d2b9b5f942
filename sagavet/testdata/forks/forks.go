// Package forks has tools with effects that let their sagas fork, and others.
package forks

import (
	"context"

	"github.com/mcpsaga/mcpsaga/saga"
)

type none struct{}

func do(context.Context, saga.Key, none) (none, error) { return none{}, nil }

var (
	act  = &saga.Effect[none, none]{Name: "act", Do: do}
	read = &saga.Effect[none, none]{Name: "read", Do: do, ReadOnly: true}
	both = []saga.Declared{read, act}
)

const never = saga.SingleUseNever

func end(*saga.Turn[none, none]) (saga.Next, error) { return nil, nil }

var machine = saga.Machine[none, none]{
	Info:  saga.Info{Name: "machine", SingleUse: saga.SingleUseNever, Effects: []saga.Declared{act}}, // want `SingleUseNever lets its sagas fork`
	Start: end,
}

var listed = saga.Info{Name: "listed", Effects: both, SingleUse: never} // want `SingleUseNever lets`

func later() saga.Definition {
	m := saga.Machine[none, none]{Info: saga.Info{Name: "later", Effects: both}, Start: end}
	m.SingleUse = never // want `SingleUseNever lets`
	return m
}

func after(effects []saga.Declared) saga.Info {
	i := saga.Info{Name: "after", SingleUse: never} // want `SingleUseNever lets`
	i.Effects = effects
	return i
}

// What follows is as it should be.

var (
	without  = saga.Info{Name: "without", SingleUse: never, Effects: nil}
	reads    = saga.Info{Name: "reads", SingleUse: never, Effects: []saga.Declared{read}}
	usual    = saga.Info{Name: "usual", Effects: both}
	required = saga.Info{Name: "required", SingleUse: saga.SingleUseRequired, Effects: both}
)

func given(use saga.SingleUse) saga.Info {
	return saga.Info{Name: "given", SingleUse: use, Effects: both}
}
