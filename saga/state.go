package saga

import (
	"errors"
	"reflect"
)

var errNoNext = errors.New("it returned neither what to do next nor an error; end it with Ask, Goto, Text, Structured or Finish")

// checkKept finds the secrets in a type that is kept between turns, and fails if
// something of it would be lost.
func checkKept(t reflect.Type, e Encoding, at string) ([]secretField, error) {
	secrets, err := findSecrets(t, at)
	if err != nil {
		return nil, err
	}
	return secrets, newKeeper(e).keeps(t, at)
}

// checkRecorded is checkKept for what is recorded of an effect.
func checkRecorded[T any](at string) ([]secretField, error) {
	return checkKept(reflect.TypeFor[T](), jsonEncoding{}, at)
}
