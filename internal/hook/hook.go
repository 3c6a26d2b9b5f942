// Package hook calls code of others around a piece of work: a request, a turn, a try of an
// effect. Use [Around].
package hook

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// ErrSilent is the error of a hook that neither had the work done nor said why not.
var ErrSilent = errors.New("a hook returned nil without calling next")

// ErrLate is what a hook gets that calls next when it has returned already.
var ErrLate = errors.New("a hook called next after it had returned")

// PanicError says that a hook panicked, or the work around which it was called.
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
//
// When Around returns, nothing of the work continues: it waits for what a hook left to a
// goroutine, and does not begin what comes later.
func Around(ctx context.Context, hook func(ctx context.Context, next func(context.Context) error) error, work func(context.Context) error) error {
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
