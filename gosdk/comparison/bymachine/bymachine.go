// Package bymachine is the tool as a step machine.
package bymachine

import (
	"context"
	"fmt"

	"github.com/mcpsaga/mcpsaga/gosdk/comparison"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type args struct {
	Version string `json:"version" jsonschema:"what to deploy"`
}

// state is what the tool needs in later rounds.
type state struct {
	Target string `json:"target,omitempty"`
	Slot   int    `json:"slot,omitempty"`
}

type target struct {
	Target string `json:"target" title:"Target" enum:"staging|production"`
}

type confirm struct {
	Sure bool `json:"sure" title:"Deploy"`
}

type turn = saga.Turn[args, state]

var (
	askTarget  = &steps.Form[target]{ID: "target", Message: "Where do you want to deploy?"}
	askModel   = &steps.Sample{ID: "model", Request: steps.SampleRequest{MaxTokens: 100}}
	askConfirm = &steps.Form[confirm]{ID: "confirm", Message: "Deploy?"}
)

// deploy is the tool with what it does to the world.
type deploy struct{ reserve *saga.Effect[string, int] }

// New returns the tool.
func New(c *comparison.Calendar) saga.Definition {
	d := deploy{&saga.Effect[string, int]{
		Name: "reserve",
		Do: func(ctx context.Context, key saga.Key, target string) (int, error) {
			return c.Reserve(ctx, string(key), target)
		},
		Undo: func(ctx context.Context, p saga.Performed[string, int]) error {
			return c.Release(ctx, string(p.Key))
		},
	}}
	return saga.Machine[args, state]{
		Info: saga.Info{
			Name: "deploy", Description: "Deploys a version where the user wants it.",
			Asks:    []steps.Question{askTarget, askModel, askConfirm},
			Effects: []saga.Declared{d.reserve},
		},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("target", askTarget) },
		Steps: saga.Steps[args, state]{"target": d.chosen, "model": d.consulted, "confirm": d.confirmed},
	}
}

// chosen has the target, reserves a slot and asks the model.
func (d deploy) chosen(t *turn) (saga.Next, error) {
	form, err := askTarget.Answer(t)
	if err != nil {
		return nil, err
	}
	slot, err := saga.Do(t, d.reserve, form.Target)
	if err != nil {
		return nil, err
	}
	t.State = state{form.Target, slot}
	return t.Ask("model", askModel.With(steps.Promptf("Is deploying to %s safe right now?", form.Target)))
}

// consulted has the model's opinion and asks for confirmation.
func (d deploy) consulted(t *turn) (saga.Next, error) {
	said, err := askModel.Answer(t)
	if err != nil {
		return nil, err
	}
	question := fmt.Sprintf("The model says: %s Deploy to %s in slot %d?", said.Text(), t.State.Target, t.State.Slot)
	return t.Ask("confirm", askConfirm.With(steps.Message(question)))
}

func (d deploy) confirmed(t *turn) (saga.Next, error) {
	form, err := askConfirm.Answer(t)
	if err != nil {
		return nil, err
	}
	if !form.Sure {
		return nil, saga.Failf("not deployed")
	}
	return t.Textf("Deploying %s to %s in slot %d.", t.Args.Version, t.State.Target, t.State.Slot)
}
