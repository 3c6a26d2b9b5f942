// Package hook calls functions of a user of this module around a piece of work: a request,
// a turn, a try of an effect. Use [Around].
package hook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// ErrSilent says that a hook returned nil without having the work done.
var ErrSilent = errors.New("a hook returned nil without calling next")

// ErrLate is returned to a hook that calls next after it has returned.
var ErrLate = errors.New("a hook called next after it had returned")

// PanicError says that a hook or its work panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("a hook panicked: %v", e.Value) }

// Work is what hooks are called around.
type Work = func(context.Context) error

// Around calls hook, whose argument next does the work, at most once. If the work was done,
// Around returns its error and not that of the hook, as work that is done can no longer be
// refused. If the hook did not call next, Around returns the error of the hook, or
// [ErrSilent].
//
// No work continues after Around has returned: it waits for a goroutine that a hook has
// started, and refuses calls of next that come later.
func Around(ctx context.Context, hook func(ctx context.Context, next Work) error, work Work) error {
	return AroundNoting(ctx, hook, work, func(*PanicError) {})
}

// AroundNoting is Around, and note hears of a panic of the hook's own that is no result, as the work was done.
func AroundNoting(ctx context.Context, hook func(ctx context.Context, next Work) error, work Work, note func(*PanicError)) error {
	var mu sync.Mutex // held while the work is done
	var result error
	var begun, over bool
	err := protect(func() error {
		return hook(ctx, func(ctx context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case over && !begun:
				return ErrLate
			case !begun:
				begun = true
				result = protect(func() error { return work(ctx) })
			}
			return result
		})
	})
	mu.Lock()
	defer mu.Unlock()
	over = true
	switch {
	case begun:
		if panicked, ok := err.(*PanicError); ok && err != result {
			note(panicked)
		}
		return result
	case err == nil:
		return ErrSilent
	}
	return err
}

// protect turns a panic into an error.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return f()
}
