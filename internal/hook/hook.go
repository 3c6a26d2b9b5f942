// Package hook calls code of others around a piece of work: a request, a turn, a try of an
// effect. Use [Around].
package hook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrSilent is the error of a hook that neither had the work done nor said why not.
var ErrSilent = errors.New("a hook returned nil without calling next")

// PanicError says that a hook panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("a hook panicked: %v", e.Value) }

// Around calls hook, which is to call next, which does the work. The work is done once at
// most, and then its error is what counts, whatever the hook makes of it: what is done
// cannot be refused any more. If the hook does not call next, its own error counts; there
// always is one.
func Around(ctx context.Context, hook func(ctx context.Context, next func(context.Context) error) error, work func(context.Context) error) error {
	var result error
	done := false
	err := protect(func() error {
		return hook(ctx, func(ctx context.Context) error {
			if !done {
				result = work(ctx)
				done = true
			}
			return result
		})
	})
	switch {
	case done:
		return result
	case err == nil:
		return ErrSilent
	}
	return err
}

// protect turns a panic of a hook into an error. Work must not panic.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return f()
}
