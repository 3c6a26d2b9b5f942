package server_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

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
	ledger.Store
	fault

	mu      sync.Mutex
	armed   bool
	left    int       // calls until it fails
	failed  bool      // it has begun to
	back    time.Time // when it works again
	watches []context.CancelCauseFunc
	bells   []func()
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
		for _, cancel := range f.watches {
			cancel(errDown)
		}
		for _, bell := range f.bells {
			bell()
		}
		return true, f.back
	}
	return false, time.Time{}
}

// fails is called before each call but a swap.
func (f *failing) fails(ctx context.Context, waits bool) error {
	away, back := f.away(waits)
	if !away {
		return nil
	}
	return f.wait(ctx, back)
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

func (f *failing) Load(ctx context.Context, key string) (*ledger.Record, error) {
	if err := f.fails(ctx, false); err != nil {
		return nil, err
	}
	return f.Store.Load(ctx, key)
}

func (f *failing) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	away, back := f.away(false)
	if !away {
		return f.Store.Swap(ctx, r, items...)
	}
	if !f.made {
		return f.wait(ctx, back)
	}
	rev := r.Rev
	err := f.Store.Swap(context.WithoutCancel(ctx), r, items...)
	r.Rev = rev
	if err != nil {
		return err
	}
	return errors.Join(ledger.ErrUnknown, f.wait(ctx, back))
}

func (f *failing) Items(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
	if err := f.fails(ctx, false); err != nil {
		return nil, err
	}
	return f.Store.Items(ctx, key, after, limit)
}

func (f *failing) Count(ctx context.Context, owner string, most int) (int, error) {
	if err := f.fails(ctx, false); err != nil {
		return 0, err
	}
	return f.Store.Count(ctx, owner, most)
}

func (f *failing) Now(ctx context.Context) (time.Time, error) {
	if err := f.fails(ctx, false); err != nil {
		return time.Time{}, err
	}
	return f.Store.Now(ctx)
}

func (f *failing) Take(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
	if err := f.fails(ctx, true); err != nil {
		return nil, err
	}
	return f.Store.Take(ctx, t)
}

func (f *failing) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) {
		if err := f.fails(ctx, false); err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		f.mu.Lock()
		f.watches = append(f.watches, cancel)
		f.mu.Unlock()
		f.Store.Watch(ctx, key, after)(yield)
	}
}

func (f *failing) Notify(key string, rev uint64, changed func()) (stop func()) {
	f.mu.Lock()
	f.bells = append(f.bells, changed)
	f.mu.Unlock()
	return f.Store.(ledger.Notifier).Notify(key, rev, changed)
}
