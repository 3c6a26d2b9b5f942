// Package byflow is the tool as a flow.
package byflow

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

type target struct {
	Target string `json:"target" title:"Target" enum:"staging|production"`
}

type confirm struct {
	Sure bool `json:"sure" title:"Deploy"`
}

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
	return saga.Flow[args, string]{
		Info: saga.Info{
			Name: "deploy", Description: "Deploys a version where the user wants it.",
			Asks:    []steps.Question{askTarget, askModel, askConfirm},
			Effects: []saga.Declared{d.reserve},
		},
		Run: d.run,
	}
}

func (d deploy) run(r *saga.Run, in args) (string, error) {
	where, err := saga.Ask(r, askTarget)
	if err != nil {
		return "", err
	}
	slot, err := saga.Do(r, d.reserve, where.Target)
	if err != nil {
		return "", err
	}
	said, err := saga.Ask(r, askModel.With(steps.Promptf("Is deploying to %s safe right now?", where.Target)))
	if err != nil {
		return "", err
	}
	question := fmt.Sprintf("The model says: %s Deploy to %s in slot %d?", said.Text(), where.Target, slot)
	form, err := saga.Ask(r, askConfirm.With(steps.Message(question)))
	if err != nil {
		return "", err
	}
	if !form.Sure {
		return "", saga.Failf("not deployed")
	}
	return fmt.Sprintf("Deploying %s to %s in slot %d.", in.Version, where.Target, slot), nil
}
