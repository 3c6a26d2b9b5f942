package saga

import (
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Final marks an error of an effect's Undo: what was done can no longer be
// reversed, such as a hold that has been paid. The undo stops there, and what was
// done before the effect is left as it is.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &engine.FinalError{Err: err}
}

// isSettled reports whether trying again cannot change an error of Do or Undo.
func isSettled(err error) bool {
	var refused *refusedError
	var final *engine.FinalError
	return errors.As(err, &refused) || errors.As(err, &final)
}
