package tasks

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// aheadTime is how long the first step of a task may take before the task's record is made without
// it: most take less, and whoever begins a task is to hear of it soon.
const aheadTime = time.Millisecond

// beginAhead begins a task here, in the place that it has, and returns its record when that is made:
// with the first checkpoint, if the task comes to one within aheadTime and has done nothing before that
// needs a record, and so by one write rather than two. In all other cases it is made as e.
func (m *Manager) beginAhead(ctx, live context.Context, e *records.TaskEntry) (*records.TaskEntry, error) {
	r := m.newRun(live, e, 1)
	u := &unwritten{ahead: true, delay: aheadTime, take: true, caller: ctx, ready: make(chan struct{})}
	r.unwritten = u
	m.crew.hold(r)
	select {
	case <-u.ready:
	case <-ctx.Done():
		go func() {
			if r.await(ctx); u.made { // it was being made just then, and nobody knows of it
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.Lease)
				defer cancel()
				_, _ = m.Cancel(ctx, e.Principal, e.ID) // else it goes on, as one whose response was lost
			}
		}()
		return nil, context.Cause(ctx)
	}
	if !u.made {
		return nil, cmp.Or(u.err, errNoOutcome)
	}
	return u.first, nil
}

// beginsAhead reports whether the run's task has no record yet. The run is locked.
func (r *run) beginsAhead() bool { return r.isUnwritten() && r.unwritten.ahead }

// notAheadForLong has the record of a task made soon, if it has none.
func (r *run) notAheadForLong() {
	r.lock()
	defer r.unlock()
	if r.beginsAhead() {
		r.unwritten.late = time.AfterFunc(r.unwritten.delay, func() { _ = r.make() })
	}
}

// tryPut makes the record of a task, as change leaves it.
func (r *run) tryPut(change func(t *records.Task) []Event) error {
	u := r.unwritten
	if u.late != nil {
		u.late.Stop()
	}
	err := r.once(change)
	tooLarge := errors.Is(err, ledger.ErrTooLarge)
	if tooLarge { // perhaps what the step has made of it is
		err = r.once(unchanged)
	}
	if !r.e.Exists() {
		return err
	}
	u.made, u.first = true, r.e
	u.caller = nil // whose request need not be kept for as long as the task runs
	u.settle()
	if tooLarge && err == nil {
		return ledger.ErrTooLarge
	}
	return err
}

// writeCheckpoint is write for a checkpoint, with which the record may be made.
func (r *run) writeCheckpoint(change func(t *records.Task) []Event) error {
	r.lock()
	defer r.unlock()
	if r.beginsAhead() && r.notes.empty() { // what was told is for who sees the record
		return r.makeLocked(change)
	}
	return r.writeLocked(change)
}

// unchanged is a change that changes nothing.
func unchanged(*records.Task) []Event { return nil }
