// Package flows has mistakes that sagavet finds.
package flows

import (
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type sure struct {
	Sure bool `json:"sure"`
}

var askSure = &steps.Form[sure]{ID: "sure", Message: "Sure?"}

func reserve(r *saga.Run, e *saga.Effect[string, int]) error {
	if _, err := saga.Ask(r, askSure); err != nil {
		return err
	}
	_, err := saga.Do(r, e, time.Now().Format(time.StampNano))
	return err
}

func swallow(r *saga.Run) (string, error) {
	if _, err := saga.Ask(r, askSure); err != nil {
		return "Nowhere.", nil
	}
	return "Deploying.", nil
}

var misspelt = saga.Machine[struct{}, struct{}]{
	Info:  saga.Info{Name: "deploy", Asks: []steps.Question{askSure}},
	Start: func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) { return t.Ask("choosen", askSure) },
	Steps: saga.Steps[struct{}, struct{}]{
		"chosen": func(t *saga.Turn[struct{}, struct{}]) (saga.Next, error) { return t.Textf("Deploying.") },
	},
}
