// Package flows has a mistake that sagavet finds.
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
