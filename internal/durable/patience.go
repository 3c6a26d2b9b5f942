package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// A database is restarted, or another takes its place, within seconds, and clients do not send an answer twice. So what a
// request asks of the store in vain is asked again, until the store has failed for outage altogether. From then on every
// failure is reported at once, so that requests do not gather. At most mostPatient wait, each with what it is to write.
// Workers come again by themselves.
const (
	outage      = 8 * time.Second
	mostPatient = 1000
)

// ErrUnavailable: the store cannot be reached or has failed. The same may succeed later, or on another replica.
var ErrUnavailable = turns.ErrLedger

// ErrSlow is for [context.WithTimeoutCause]: the store has not answered in time.
var ErrSlow = fmt.Errorf("%w: it has not answered in time", ErrUnavailable)

// patience waits for a store that fails. There is one for what is read and one for what is written, as
// a full disk can still be read.
type patience struct {
	waiting atomic.Int64
	mu      sync.Mutex
	// since is when the store began to fail, and last when it did so last; since is zero while it works.
	since, last time.Time
	failures    uint64
}

type patientKey struct{}

// Patient returns a context for a request of a client, whose work is to wait for a ledger that fails for a moment.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

// insist does something that may fail because the store does, again if it makes sense. An error of the store's
// wraps [ErrUnavailable].
func insist[T any](ctx context.Context, p *patience, do func() (T, error)) (v T, err error) {
	try := func() (again bool) {
		began := time.Now()
		v, err = do()
		return p.note(began, err)
	}
	if again := try(); again && ctx.Value(patientKey{}) != nil {
		defer p.waiting.Add(-1)
		again = p.waiting.Add(1) <= mostPatient
		pauses := &backoff.ExponentialBackOff{InitialInterval: 50 * time.Millisecond, MaxInterval: 400 * time.Millisecond, Multiplier: 1.5, RandomizationFactor: 0.5}
		pauses.Reset()
		for again {
			pause := pauses.NextBackOff()
			end, bounded := ctx.Deadline()
			if bounded && time.Until(end) <= pause || sleep(ctx, pause) != nil {
				break // rather than that time is up
			}
			again = try()
		}
	}
	return v, failure(ctx, err)
}

// failure says whether the store has failed, or nothing waits for it any more.
func failure(ctx context.Context, err error) error {
	switch {
	case err == nil, answered(err), refused(err), errors.Is(err, ErrUnavailable):
		return err
	case ctx.Err() != nil && errors.Is(err, store.ErrUnknown):
		return fmt.Errorf("ledger: %w: %w", context.Cause(ctx), store.ErrUnknown)
	case ctx.Err() != nil:
		return fmt.Errorf("ledger: %w", context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// answered reports whether an error is the answer of a store that works.
func answered(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrFull)
}

// refused reports whether a call would fail each time.
func refused(err error) bool {
	return errors.Is(err, store.ErrTooLarge) || errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrClosed)
}

// note notes what has come of what the store was asked at a time. again says whether it may be asked again, as nothing
// was changed and the store has not failed for long.
func (p *patience) note(began time.Time, err error) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil, answered(err):
		p.since = time.Time{}
		return false
	case refused(err), errors.Is(err, context.Canceled):
		return false
	case p.since.IsZero(), now.Sub(p.last) > 2*outage: // what was long ago may have been over since
		p.since = began
	}
	p.failures++
	p.last = now
	return now.Sub(p.since) < outage && !errors.Is(err, store.ErrUnknown)
}

// failsLong reports whether the store fails for so long that nothing waits for it.
func (p *patience) failsLong() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.since.IsZero() && p.last.Sub(p.since) >= outage
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	awaits(ctx, nil, d)
	return ctx.Err()
}

// awaits waits until there is something in a channel, and reports true if the time or ctx is over before.
func awaits(ctx context.Context, changed <-chan struct{}, d time.Duration) (over bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
		return false
	case <-t.C:
	case <-ctx.Done():
	}
	return true
}
