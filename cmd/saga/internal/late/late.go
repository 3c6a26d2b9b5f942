// Package late is a ledger whose database cannot be reached yet: servers start without it,
// and use it once it is there.
package late

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
)

const (
	// first is how long the start waits for the database.
	first = 10 * time.Second
	// pause is how long it is left alone after an attempt.
	pause = 2 * time.Second
	// reminder is how often the log says that it still cannot be opened.
	reminder = time.Minute
)

// Open opens a ledger. If that fails and away says that it may well be there later, Open
// returns a store all the same, which keeps trying: until it has succeeded, its methods
// fail with the error, and those of workers wait.
func Open(ctx context.Context, log *slog.Logger, open func(context.Context) (store.Store, error), away func(error) bool) (store.Store, error) {
	limited, cancel := context.WithTimeout(ctx, first)
	defer cancel()
	opened, err := open(limited)
	if err == nil || ctx.Err() != nil || limited.Err() == nil && !away(err) {
		return opened, err
	}
	log.Warn("the ledger cannot be reached; what needs it is refused until it can be", "error", err)
	l := &late{tried: make(chan struct{})}
	l.Around = l.call
	l.why.Store(&err)
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go l.try(ctx, log, open)
	return l, nil
}

// late is a store that is opened later.
type late struct {
	intercept.Store // its Store is set before tried is closed, or stays nil
	stop            context.CancelFunc
	tried           chan struct{} // closed when there are no more attempts to open it
	why             atomic.Pointer[error]
}

// try opens the store, until it has or ctx ends.
func (l *late) try(ctx context.Context, log *slog.Logger, open func(context.Context) (store.Store, error)) {
	defer close(l.tried)
	said := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		limited, cancel := context.WithTimeout(ctx, first)
		opened, err := open(limited)
		cancel()
		if err == nil {
			l.Store.Store = opened
			log.Info("the ledger is there now")
			return
		}
		before := *l.why.Swap(&err)
		if ctx.Err() == nil && (before.Error() != err.Error() || time.Since(said) >= reminder) {
			said = time.Now()
			log.Warn("the ledger still cannot be opened", "error", err)
		}
	}
}

// call makes a call once the store is there.
func (l *late) call(ctx context.Context, c intercept.Call, next func() error) error {
	if c.Method == "Take" || c.Method == "Listen" {
		select {
		case <-l.tried:
		case <-ctx.Done():
		}
	}
	select {
	case <-l.tried:
		if l.Store.Store == nil {
			return store.ErrClosed
		}
		return next()
	default:
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the ledger has not been reached yet: %w", *l.why.Load())
}

// Identity implements [store.Store]; it is not among the calls that are intercepted.
func (l *late) Identity(ctx context.Context) (id store.ID, err error) {
	err = l.call(ctx, intercept.Call{Method: "Identity"}, func() (err error) {
		id, err = l.Store.Store.Identity(ctx)
		return err
	})
	return id, err
}

// Close ends the attempts, and closes the store if it was opened.
func (l *late) Close() error {
	l.stop()
	<-l.tried
	if l.Store.Store == nil {
		return nil
	}
	return l.Store.Store.Close()
}
