package server_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// fault is how a ledger fails.
type fault struct {
	// hangs: what is asked of it gets no answer until its caller gives up; otherwise it is refused.
	// made: what it is to write is written all the same, and nobody is told.
	hangs, made bool
	// lasts is for how long; zero is one call.
	lasts time.Duration
}

// failing is a ledger that fails from its nth call on, for a while.
type failing struct {
	*storetest.Intercept
	fault

	mu      sync.Mutex
	armed   bool
	left    int       // calls until it fails
	failed  bool      // it has begun to
	back    time.Time // when it works again
	listens []context.CancelCauseFunc
}

func newFailing(inner ledger.Store, how fault) *failing {
	f := &failing{fault: how}
	f.Intercept = &storetest.Intercept{Store: inner, Around: f.around}
	return f
}

// arm has the nth call from now on be the first to fail.
func (f *failing) arm(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.left = true, n
}

// away counts a call, and reports whether it fails. Waiting for work to come is no call of its own.
func (f *failing) away(waits bool) (away bool, back time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.armed:
	case f.failed:
		return time.Now().Before(f.back), f.back
	case waits:
	default:
		if f.left--; f.left > 0 {
			break
		}
		f.failed, f.back = true, time.Now().Add(f.lasts)
		for _, cancel := range f.listens {
			cancel(errDown)
		}
		return true, f.back
	}
	return false, time.Time{}
}

// wait hangs, if that is how it fails, and returns the error.
func (f *failing) wait(ctx context.Context, back time.Time) error {
	if !f.hangs {
		return errDown
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(back)):
		return errDown
	}
}

// around is called for each call. Waiting for work to come is no call of its own.
func (f *failing) around(ctx context.Context, c storetest.Call, next func() error) error {
	away, back := f.away(c.Method == "Take" || c.Method == "Renew" || c.Method == "Forget")
	switch {
	case !away:
		return next()
	case !f.made || !c.Writes():
		return f.wait(ctx, back)
	}
	if err := next(); err != nil {
		return err
	}
	return errors.Join(store.ErrUnknown, f.wait(ctx, back))
}

// Listen implements [store.Store]: it ends when the ledger begins to fail.
func (f *failing) Listen(ctx context.Context, changed func(store.ID, uint64)) error {
	if away, back := f.away(true); away {
		return f.wait(ctx, back)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.mu.Lock()
	f.listens = append(f.listens, cancel)
	f.mu.Unlock()
	return f.Store.Listen(ctx, changed)
}
