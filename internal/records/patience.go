package records

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// A database is restarted, or another takes its place, within seconds. Whoever is refused meanwhile
// may have no way to come again: clients do not send an answer twice. So what a request asks of the
// store in vain is asked again, until the store has failed for outage altogether. From then on every
// failure is reported at once, so that requests do not gather while an outage lasts. At any time
// at most mostPatient wait, each with what it is to write. Workers come again by themselves.
const (
	outage      = 8 * time.Second
	mostPatient = 1000
	firstPause  = 50 * time.Millisecond
	lastPause   = 400 * time.Millisecond
)

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

// insist does something that may fail because the store does, again if it makes sense. To do it twice
// must not do more.
func insist[T any](ctx context.Context, p *patience, do func() (T, error)) (T, error) {
	v, again, err := try(p, do)
	if !again || ctx.Value(patientKey{}) == nil || !p.enter() {
		return v, err
	}
	defer p.leave()
	pauses := &backoff.ExponentialBackOff{InitialInterval: firstPause, MaxInterval: lastPause, Multiplier: 1.5, RandomizationFactor: 0.5}
	for pauses.Reset(); again; v, again, err = try(p, do) {
		pause := pauses.NextBackOff()
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= pause {
			return v, err // rather than that time is up
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return v, err
		}
	}
	return v, err
}

// try does something once. again says whether it is to be done again, as the store has not failed for
// long. It may be done already if it is not known what became of it.
func try[T any](p *patience, do func() (T, error)) (v T, again bool, err error) {
	began := time.Now()
	v, err = do()
	switch {
	case err == nil, errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrConflict):
		p.works()
		return v, false, err
	case errors.Is(err, ledger.ErrTooLarge), errors.Is(err, ledger.ErrInvalid), errors.Is(err, ledger.ErrClosed), errors.Is(err, context.Canceled):
		return v, false, err
	}
	return v, p.failed(began), err
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
