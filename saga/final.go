package saga

import "errors"

// Final marks an error of an effect's Undo: what was done can no longer be
// reversed, such as a hold that has been paid. The undo stops there, and what was
// done before the effect is left as it is.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// errNothingToUndo is the undo of an effect that has none.
var errNothingToUndo = errors.New("there is nothing to undo")

// isSettled reports whether trying again cannot change an error of Do or Undo.
func isSettled(err error) bool {
	var refused *refusedError
	var final *finalError
	return errors.As(err, &refused) || errors.As(err, &final)
}
