package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// A database is restarted, or another takes its place, within seconds. A request that is refused
// meanwhile may have no way to come again: clients do not send an answer twice. So what a request
// asks of the store in vain is asked again, until the store has failed for outage altogether. From
// then on every failure is reported at once, so that requests do not gather while an outage lasts.
// At any time at most mostPatient wait, each with what it is to write. Workers come again by
// themselves.
const (
	outage      = 8 * time.Second
	mostPatient = 1000
)

// ErrUnavailable: the store cannot be reached or has failed. The same may succeed later, or on
// another replica.
var ErrUnavailable = turns.ErrLedger

// ErrSlow is for [context.WithTimeoutCause]: the store has not answered in time.
var ErrSlow = fmt.Errorf("%w: it has not answered in time", ErrUnavailable)

// patience waits for a store that fails. There is one for what is read and one for what is written, as
// a full disk can still be read.
type patience struct {
	mu      sync.Mutex
	waiting int
	// since is when the store began to fail, and last when it did so last; since is zero while it
	// works.
	since, last time.Time
	failures    uint64
}

type patientKey struct{}

// Patient returns a context for a request of a client, whose work is to wait for a ledger that
// fails for a moment.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

// insist does something that may fail because the store does, again if it makes sense. An error of the store's
// wraps [ErrUnavailable].
func insist[T any](ctx context.Context, p *patience, do func() (T, error)) (T, error) {
	v, again, err := p.try(func() (any, error) { return do() })
	if again && ctx.Value(patientKey{}) != nil && p.enter() {
		defer p.leave()
		pauses := &backoff.ExponentialBackOff{InitialInterval: 50 * time.Millisecond, MaxInterval: 400 * time.Millisecond, Multiplier: 1.5, RandomizationFactor: 0.5}
		pauses.Reset()
		for again {
			pause := pauses.NextBackOff()
			if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= pause {
				break // rather than that time is up
			}
			if sleep(ctx, pause) != nil {
				break
			}
			v, again, err = p.try(func() (any, error) { return do() })
		}
	}
	value, _ := v.(T)
	return value, failure(ctx, err)
}

// failure says whether the store has failed, or nothing waits for it any more.
func failure(ctx context.Context, err error) error {
	switch {
	case err == nil, answered(err), refused(err), errors.Is(err, ErrUnavailable):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("ledger: %w", errors.Join(context.Cause(ctx), unknown(err)))
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// unknown keeps of an error that it is not known what was changed.
func unknown(err error) error {
	if errors.Is(err, store.ErrUnknown) {
		return store.ErrUnknown
	}
	return nil
}

// answered reports whether an error is the answer of a store that works.
func answered(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrFull)
}

// refused reports whether a call would fail each time.
func refused(err error) bool {
	return errors.Is(err, store.ErrTooLarge) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrClosed)
}

// try does something once. again says whether it may be done again, as nothing was changed and the store has
// not failed for long.
func (p *patience) try(do func() (any, error)) (v any, again bool, err error) {
	began := time.Now()
	v, err = do()
	switch {
	case err == nil, answered(err):
		p.works()
		return v, false, err
	case refused(err), errors.Is(err, context.Canceled):
		return v, false, err
	}
	return v, p.failed(began) && !errors.Is(err, store.ErrUnknown), err
}

// works notes that the store does what it is asked.
func (p *patience) works() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Time{}
}

// failed notes that the store has failed to do what it was asked at a time, and reports whether
// that may soon be over.
func (p *patience) failed(began time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures++
	now := time.Now()
	if p.since.IsZero() || now.Sub(p.last) > 2*outage { // what was long ago may have been over since
		p.since = began
	}
	p.last = now
	return now.Sub(p.since) < outage
}

// failsLong reports whether the store fails for so long that nothing waits for it.
func (p *patience) failsLong() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.since.IsZero() && p.last.Sub(p.since) >= outage
}

func (p *patience) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting >= mostPatient {
		return false
	}
	p.waiting++
	return true
}

func (p *patience) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
