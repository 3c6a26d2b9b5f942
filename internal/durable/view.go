package durable

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// report makes sure that an error is one of those that [tasks.Viewer] names.
func (c *Core) report(ctx context.Context, method string, err error) error {
	switch {
	case err == nil, errors.Is(err, tasks.ErrNotFound), errors.Is(err, tasks.ErrExists), errors.Is(err, tasks.ErrTooMany), errors.As(err, new(*turns.Error)):
		return err
	}
	return c.Turns.Report(ctx, method, err)
}

// find returns the row of a task, or [tasks.ErrNotFound].
func (c *Core) find(ctx context.Context, principal, name string) (*row, error) {
	if name == "" {
		return nil, tasks.ErrNotFound
	}
	id := c.rows.taskID(principal, name)
	r, err := c.rows.load(ctx, id)
	if saga, ok := sagaOf(name); r == nil && err == nil && ok { // one that was begun from a token
		r, err = c.rows.load(ctx, c.rows.sagaID(principal, saga))
		if r != nil && subtle.ConstantTimeCompare([]byte(r.Name), []byte(name)) != 1 {
			r = nil
		}
	}
	switch {
	case errors.Is(err, ErrUnreadable):
		return nil, c.forgets(ctx, id, err)
	case err != nil:
		return nil, c.report(ctx, "task", err)
	case r == nil || r.Principal != principal || forgotten(r):
		return nil, tasks.ErrNotFound
	}
	return r, nil
}

// forgets is what is said of a row that cannot be read any more: there is no such task. The log says so once
// in a while.
func (c *Core) forgets(ctx context.Context, id store.ID, err error) error {
	if c.unread.first(id) {
		c.Turns.Log.WarnContext(ctx, "a saga is forgotten", "record", id.String(), "error", err)
	}
	return fmt.Errorf("%w: %w", tasks.ErrNotFound, err)
}

// lately knows what was logged lately.
type lately struct {
	mu    sync.Mutex
	since time.Time
	said  map[store.ID]bool
}

const (
	latelyTime = 10 * time.Minute
	mostLately = 1000 // more are not logged in that time
)

// first reports whether something is to be logged, as it was not lately.
func (l *lately) first(id store.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.since) > latelyTime {
		l.since, l.said = time.Now(), make(map[store.ID]bool)
	}
	if l.said[id] || len(l.said) >= mostLately {
		return false
	}
	l.said[id] = true
	return true
}

// forgotten reports whether a row is not shown any more: it may be forgotten at any time, or is kept
// only as effects are to be undone.
func forgotten(r *row) bool { return r.Status.Over() && !r.Times.Keep.After(r.now()) }

// Get implements [tasks.Viewer].
func (c *Core) Get(ctx context.Context, principal, id string) (*tasks.Task, error) {
	r, err := c.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	c.looked(ctx, r)
	return c.view(r)
}

// Status implements [tasks.Viewer].
func (c *Core) Status(ctx context.Context, principal, id string) (*tasks.Task, error) {
	r, err := c.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	c.looked(ctx, r)
	return c.glance(r)
}

// view shows a row.
func (c *Core) view(r *row) (*tasks.Task, error) {
	t, err := c.glance(r)
	if err == nil && (t.Status == tasks.Completed || t.Status == tasks.Cancelled) {
		if t.End, err = turns.DecodeEnd(r.Shown.End); err != nil {
			return nil, damaged(err)
		}
	}
	return t, err
}

// glance shows a row but for the result.
func (c *Core) glance(r *row) (*tasks.Task, error) {
	t := &tasks.Task{
		ID: r.Name, Saga: r.Saga, Note: json.RawMessage(r.Note), Created: r.Created, Updated: later(r.Shown.Updated, r.Created), TTL: r.Times.TTL, Poll: r.Times.Poll,
		Status: statusOf(r), Message: r.Shown.Message, Cancelling: r.Cancelled, Bad: r.Shown.Bad, Progress: r.Shown.Progress.engine(),
		Events: r.Shown.Newest, Told: r.Shown.Told, Rev: r.Head,
	}
	for _, g := range r.Stand.Given {
		t.Given = append(t.Given, tasks.Given(g))
	}
	t.Program, _ = c.Turns.ProgramOf(r.Tool, r.Revision)
	switch t.Status {
	case tasks.InputRequired:
		_, theirs := open(stepsOf(r.Stand.Questions), answersOf(r.Stand.Answers), engine.UnpackFeatures(r.Begun.Client))
		for _, q := range theirs {
			for i := range r.Stand.Questions {
				if r.Stand.Questions[i].ID == q.ID {
					t.Questions, t.Numbers = append(t.Questions, q), append(t.Numbers, r.number(i))
				}
			}
		}
	case tasks.Failed:
		var f recordedFailure
		if err := cbor.Unmarshal(r.Shown.End, &f); err != nil {
			return nil, damaged(err)
		}
		t.Err = f.err()
	}
	return t, nil
}

func damaged(err error) error { return &turns.Error{Err: errors.Join(ErrUnreadable, err)} }

// statusOf is how far a saga is, as clients see it.
func statusOf(r *row) tasks.Status {
	switch {
	case r.Status.Over():
		return r.Shown.Ending.status()
	case r.Status == store.Waiting && !r.Cancelled && r.Undoing == nil:
		_, theirs := open(stepsOf(r.Stand.Questions), answersOf(r.Stand.Answers), engine.UnpackFeatures(r.Begun.Client))
		if len(theirs) > 0 {
			return tasks.InputRequired
		}
	case r.Status == store.Working && r.Fence == 0 && !r.Running.Held:
		return tasks.Queued
	}
	return tasks.Working
}

// List implements [tasks.Viewer].
func (c *Core) List(ctx context.Context, principal, after string, limit int) (list []*tasks.Task, next string, err error) {
	cursor, err := c.openCursor(principal, after)
	if err != nil {
		return nil, "", nil // what is no place in the list is behind its end
	}
	filter := store.Filter{Audience: c.rows.audience, Owner: c.rows.owner(principal), Mode: store.ModeTask}
	for limit > 0 {
		found, err := insist(ctx, &c.rows.reads, func() ([]*store.Record, error) { return c.rows.store.List(ctx, filter, cursor, limit) })
		if err != nil {
			return nil, "", c.report(ctx, "task", err)
		}
		for _, record := range found {
			cursor = store.Cursor{Created: record.Created, ID: record.ID}
			t, err := c.listed(record)
			if err != nil {
				c.Turns.Log.ErrorContext(ctx, "a task is left out of its owner's list, as it cannot be read", "tool", record.Tool, "record", record.ID.String(), "error", err)
			} else if t != nil {
				list = append(list, t)
			}
		}
		if len(found) < limit {
			return list, "", nil
		}
		if len(list) > 0 {
			next, err = c.sealCursor(principal, cursor)
			return list, next, err
		}
	}
	return list, "", nil
}

// listed shows a record from its summary; nil if it is forgotten.
func (c *Core) listed(record *store.Record) (*tasks.Task, error) {
	var s summary
	if err := c.rows.open(record.ID, placeSummary, 0, record.Summary, &s); err != nil {
		return nil, err
	}
	if record.Status.Over() && !s.Keep.After(record.Now) {
		return nil, nil
	}
	t := &tasks.Task{
		ID: s.Name, Saga: s.Saga, Note: json.RawMessage(s.Note), Created: record.Created, Updated: later(s.Updated, record.Created), TTL: s.TTL, Poll: s.Poll,
		Message: s.Message, Cancelling: s.Cancelled, Bad: s.Bad, Events: record.Head, Rev: record.Head, Status: tasks.Working,
	}
	t.Program, _ = c.Turns.ProgramOf(record.Tool, record.Revision)
	switch {
	case record.Status.Over():
		t.Status = s.Ending.status()
	case record.Status == store.Waiting && !s.Cancelled:
		t.Status = tasks.InputRequired
	case record.Status == store.Working && record.Fence == 0 && record.Until.IsZero():
		t.Status = tasks.Queued
	}
	return t, nil
}

// cursor is a place in a list, as clients carry it.
type cursor struct {
	Created int64    `cbor:"1,keyasint"` // in microseconds
	ID      store.ID `cbor:"2,keyasint"`
}

func (c *Core) sealCursor(principal string, at store.Cursor) (string, error) {
	raw, err := c.rows.seal(c.rows.owner(principal), "cursor", 0, cursor{at.Created.UnixMicro(), at.ID})
	return encoding.EncodeToString(raw), err
}

func (c *Core) openCursor(principal, s string) (at store.Cursor, err error) {
	if s == "" {
		return at, nil
	}
	raw, err := encoding.DecodeString(s)
	if err != nil {
		return at, fmt.Errorf("durable: a cursor: %w", err)
	}
	var kept cursor
	if err := c.rows.open(c.rows.owner(principal), "cursor", 0, raw, &kept); err != nil {
		return at, err
	}
	return store.Cursor{Created: microTime(kept.Created), ID: kept.ID}, nil
}
