package records

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Look returns how it is with a saga or a task that [Book.List] has shown. It fails with
// [ErrNothingWaits] if there is nothing to undo any more.
func (b *Book) Look(ctx context.Context, w Waiting) (Waiting, error) {
	r, err := b.load(ctx, w.Key)
	switch {
	case err != nil:
		return Waiting{}, err
	case r == nil || r.Wake.IsZero():
		return Waiting{}, ErrNothingWaits
	}
	return b.look(r, w.Task)
}

// look shows a record to operators.
func (b *Book) look(r *ledger.Record, task bool) (Waiting, error) {
	if task {
		e, err := b.taskEntry(r)
		if err != nil {
			return Waiting{}, err
		}
		return e.waiting(), nil
	}
	e, err := b.entry(r)
	if err != nil {
		return Waiting{}, err
	}
	return e.waiting(), nil
}

// waiting shows a task to operators.
func (e *TaskEntry) waiting() Waiting {
	w := Waiting{
		Key: e.key, Task: true, TooLate: e.TooLate, Target: e.Target, Saga: fmt.Sprintf("%x", e.Saga), Began: e.Created, Due: e.Wake,
		Attempts: int(e.Failures), LastError: e.LastError,
	}
	if e.State == TaskWaiting || e.State == TaskSleeping {
		w.Due = e.Over()
	}
	switch {
	case e.State == TaskEnded || e.Failures > 0:
		w.State = Failing
	case e.Cancelled || len(e.Undo) > 0:
		w.State = Undoing
	case e.Taken():
		w.State = Running
	case e.State == TaskWaiting:
		w.State = Suspended
	case e.State == TaskSleeping:
		w.State = Sleeping
	default:
		w.State = Queued
	}
	return w
}

// cancelTask has a task cancelled, or what could not be undone of it tried again now.
func (b *Book) cancelTask(ctx context.Context, r *ledger.Record, now time.Time) error {
	e, err := b.taskEntry(r)
	if err != nil {
		return err
	}
	if e.State != TaskEnded {
		if e.TooLate {
			return ErrTooLate
		}
		e.Cancelled = true
		e.Seen++
	}
	if !e.Taken() {
		if e.State != TaskEnded {
			e.State = TaskQueued
		}
		e.Rest, e.Wake = now, now
		if e.State != TaskEnded {
			e.Base = e.Epoch()
		}
	}
	_, err = b.PutTask(ctx, e, false)
	return err
}
