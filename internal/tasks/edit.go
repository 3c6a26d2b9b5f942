package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
)

// edit changes a task for its client. change returns false if there is nothing to do. If the
// task is to go on now, run is true.
func (m *Manager) edit(ctx context.Context, principal, id string, change func(e *records.TaskEntry) (run, changed bool, err error)) (*Task, error) {
	m.sync(ctx)
	for {
		e, err := m.find(ctx, principal, id)
		if err != nil {
			return nil, err
		}
		next := e.Clone()
		run, changed, err := change(next)
		if err != nil {
			return nil, m.report(ctx, "task", err)
		}
		if !changed {
			return m.view(e)
		}
		switch err := m.write(ctx, e, next, run); {
		case errors.Is(err, records.ErrConflict):
			continue
		case err != nil:
			return nil, m.report(ctx, "task", err)
		}
		return m.view(next)
	}
}

// write writes what a client has made of the record e. If the task is to go on now, run is true.
func (m *Manager) write(ctx context.Context, e, next *records.TaskEntry, run bool) error {
	if status(next) != status(e) {
		next.Seen++
		next.Updated = m.now()
	}
	if run && !e.Taken() {
		_, err := m.put(ctx, next, false)
		return err
	}
	next.KeepUntil = keepUntil(&next.Task)
	_, err := m.book.PutTask(ctx, next, false)
	return err
}

// Cancel implements [Viewer].
func (m *Manager) Cancel(ctx context.Context, principal, id string) (*Task, error) {
	var next *records.TaskEntry
	t, err := m.edit(ctx, principal, id, func(e *records.TaskEntry) (run, changed bool, err error) {
		if e.State == records.TaskEnded || e.Cancelled || e.TooLate || len(e.Undo) > 0 {
			return false, false, nil
		}
		next = e
		e.Cancelled = true
		return true, true, nil
	})
	if err == nil && next != nil && next.Rev() == t.Rev {
		m.teach(ctx, principal, id, next)
	}
	return t, err
}

// teach has the run of a task, if that is held here, learn what its client has written.
func (m *Manager) teach(ctx context.Context, principal, id string, next *records.TaskEntry) {
	if r := m.runs(principal, id); r != nil {
		select {
		case r.mutex <- struct{}{}:
			r.learn(next)
			r.unlock()
		case <-ctx.Done(): // what is being written finds it in its way
		}
	}
}

// runs returns the run of a task that is held here, or nil.
func (m *Manager) runs(principal, id string) *run {
	key, err := m.book.TaskKey(principal, id)
	if err != nil {
		return nil
	}
	return m.crew.find(key)
}

// Extend implements [Viewer].
func (m *Manager) Extend(ctx context.Context, principal, id string, until time.Time) error {
	_, err := m.edit(ctx, principal, id, func(e *records.TaskEntry) (run, changed bool, err error) {
		if !until.After(e.Keep) {
			return false, false, nil
		}
		e.Keep = until.UTC()
		return false, true, nil
	})
	return err
}
