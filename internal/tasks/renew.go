package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
)

// A task that was begun with a patience ends when that is over, unless somebody shows before
// that he still wants it.

// Renew implements [Viewer].
func (m *Manager) Renew(ctx context.Context, principal, id string, patience time.Duration, change func(json.RawMessage) json.RawMessage) (*Task, error) {
	var next *records.TaskEntry
	t, err := m.edit(ctx, principal, id, func(e *records.TaskEntry) (run, changed bool, err error) {
		now := m.now()
		next = e
		if change != nil {
			if note := change(bytes.Clone(e.Note)); !bytes.Equal(note, e.Note) {
				e.Note = note
				e.Seen++
				changed = true
			}
		}
		// What was renewed just now need not be written again, however often it is asked for.
		until, soon := now.Add(patience), patience/16
		switch {
		case e.State == records.TaskEnded:
			if e.Keep.Before(until.Add(-soon)) {
				e.Keep, changed = until, true
			}
		case e.Wanted.IsZero(): // it ends by itself
		case e.Wanted.Before(until.Add(-soon)):
			e.Wanted, changed = until, true
			if e.Taken() {
				break // whoever runs it sees to its time
			}
			switch e.State {
			case records.TaskWaiting:
				e.Rest = waitsUntil(&e.Task, now)
				e.Wake = e.Rest
			case records.TaskSleeping:
				e.Rest = sleepsUntil(&e.Task)
				e.Wake = e.Rest
			}
		}
		return false, changed, nil
	})
	if err == nil && next.Rev() == t.Rev {
		m.teach(ctx, principal, id, next)
	}
	return t, err
}

// learn takes over what a client has written meanwhile, so that it is shown at once and the next
// write does not find it in its way. What is older than what is known, such as that it was to be
// cancelled when it was too late for that, is no news. The run is locked.
func (r *run) learn(found *records.TaskEntry) {
	if r.lost || found.Epoch() != r.epoch || found.Rev() <= r.e.Rev() {
		return
	}
	if r.trying == 0 {
		r.e = found
		r.shown.set(found, false)
	}
	if found.Cancelled {
		r.cut(errCancelled)
	}
}

// isOver reports whether a task is to be ended.
func isOver(t *records.Task, now time.Time) bool {
	over := t.Over()
	return !over.IsZero() && !now.Before(over)
}

// waitsUntil is when a task that waits for its client is to be looked at.
func waitsUntil(t *records.Task, now time.Time) time.Time {
	if over := t.Over(); !over.IsZero() {
		return over
	}
	return now.Add(never)
}

// sleepsUntil is when a task that sleeps is to be looked at.
func sleepsUntil(t *records.Task) time.Time {
	if over := t.Over(); !over.IsZero() && over.Before(t.WakeAt) {
		return over
	}
	return t.WakeAt
}

// cutWhenOver cuts a turn off when its task's time is over, which clients may put off.
func (r *run) cutWhenOver(ctx context.Context) {
	for {
		t := r.task()
		left := t.Over().Sub(r.m.now())
		if left <= 0 {
			r.cut(errOver)
			return
		}
		if sleep(ctx, left) != nil {
			return
		}
	}
}
