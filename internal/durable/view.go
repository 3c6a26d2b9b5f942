package durable

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// report makes sure that an error is one of those that [tasks.Viewer] names.
func (c *Core) report(ctx context.Context, method string, err error) error {
	switch {
	case err == nil, errors.Is(err, tasks.ErrNotFound), errors.Is(err, tasks.ErrExists), errors.Is(err, tasks.ErrTooMany), errors.As(err, new(*turns.Error)):
		return err
	}
	return c.Turns.Report(ctx, method, err)
}

// find returns the row of a task that the caller may see, or [tasks.ErrNotFound].
func (c *Core) find(ctx context.Context, principal, name string) (*row, error) {
	r, err := c.owned(ctx, principal, name)
	if err == nil && c.Turns.Permit != nil {
		err = c.permitted(ctx, principal, r.Tool, r.Revision)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// permitted fails if the caller may not use the tool of a task. Who has the link to a page may be another person.
func (c *Core) permitted(ctx context.Context, principal, tool string, revision uint32) error {
	program, _ := c.Turns.ProgramOf(tool, revision)
	if engine.CallerOf(ctx).Binding() != principal {
		return nil
	}
	err := c.Turns.Permitted(ctx, program)
	if errors.Is(err, turns.ErrHidden) {
		return tasks.ErrNotFound
	}
	return err
}

// owned returns the row of a task, or [tasks.ErrNotFound].
func (c *Core) owned(ctx context.Context, principal, name string) (*row, error) {
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
	case r == nil || r.Principal != principal || r.Status.Over() && !r.Times.Keep.After(r.now()): // or it is kept only for its undo
		return nil, tasks.ErrNotFound
	}
	return r, nil
}

// forgets is what is said of a row that cannot be read any more: there is no such task. The log says so once
// in a while.
func (c *Core) forgets(ctx context.Context, id store.ID, err error) error {
	c.unread.Do(func() { c.Turns.Log.WarnContext(ctx, "a saga is forgotten", "record", id.String(), "error", err) })
	return fmt.Errorf("%w: %w", tasks.ErrNotFound, err)
}

// Get implements [tasks.Viewer].
func (c *Core) Get(ctx context.Context, principal, id string) (*tasks.Task, error) {
	r, err := c.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	c.looked(ctx, r)
	t, err := c.view(r)
	if err == nil {
		t.Found = r
	}
	return t, err
}

// view is a row as its client sees it, and summarized as much of that as a list has.
func (c *Core) view(r *row) (*tasks.Task, error) {
	t := c.summarized(&r.Record, &r.summary)
	t.Status, t.Progress, t.Given, t.Final, t.Rests, t.Now = statusOf(r), (*engine.Progress)(r.Progress), r.Stand.Given, r.Final, r.rests(), r.now()
	for _, h := range r.Heard {
		t.Happened = append(t.Happened, h.Question)
	}
	for _, e := range r.events() {
		if t.Status.Ended() {
			break
		}
		t.Message, t.Awaits = cmp.Or(t.Message, e.Message), append(t.Awaits, e)
	}
	switch t.Status {
	case tasks.InputRequired:
		for _, q := range r.theirs() {
			i := slices.IndexFunc(r.Stand.Questions, func(o steps.Step) bool { return o.ID == q.ID })
			t.Questions, t.Numbers = append(t.Questions, q), append(t.Numbers, r.number(i))
		}
	case tasks.Failed:
		var f recordedFailure
		if err := decoder.Unmarshal(r.End, &f); err != nil {
			return nil, damaged(err)
		}
		t.Err = f.err()
	case tasks.Completed, tasks.Cancelled:
		end, _, err := turns.DecodeResponse(r.End)
		if err != nil {
			return nil, damaged(err)
		}
		t.End = &end
	}
	return t, nil
}

func (c *Core) summarized(record *store.Record, s *summary) *tasks.Task {
	t := &tasks.Task{
		ID: s.Name, Saga: s.Saga, Note: json.RawMessage(s.Note), Created: record.Created, Updated: later(s.Shown.Updated, record.Created), Now: record.Now,
		TTL: s.Times.TTL, Poll: s.Times.Poll, Message: s.Shown.Message, Cancelling: s.Cancelled, Bad: s.Shown.Bad,
		Events: s.Shown.Newest, Rev: record.Head, Status: s.status(record),
	}
	t.Program, _ = c.Turns.ProgramOf(record.Tool, record.Revision)
	return t
}

// rests reports whether no one is at the saga, or is to be by now.
func (r *row) rests() bool {
	return !r.Status.Over() && !r.Running.Held && r.Wake.After(r.now())
}

// theirs are the open questions that are the client's, not the server's model's, to answer.
func (r *row) theirs() []steps.Step {
	_, theirs := open(r.Stand.Questions, r.Stand.Answers, engine.UnpackFeatures(r.Begun.Client))
	return theirs
}

func damaged(err error) error { return &turns.Error{Err: errors.Join(ErrUnreadable, err)} }

// statusOf is how far a saga is, as clients see it.
func statusOf(r *row) tasks.Status {
	status := r.summary.status(&r.Record)
	if status == tasks.InputRequired && (r.Undoing != nil || len(r.theirs()) == 0) {
		return tasks.Working
	}
	return status
}

// status is statusOf, but for what has come since the record was written.
func (s *summary) status(r *store.Record) tasks.Status {
	switch {
	case r.Status.Over():
		return s.Shown.Ending.status()
	case r.Status == store.Waiting && !s.Cancelled && !s.Shown.Outside:
		return tasks.InputRequired
	case r.Status == store.Working && r.Fence == 0 && !s.Running.Held:
		return tasks.Queued
	}
	return tasks.Working
}

// List implements [tasks.Viewer].
func (c *Core) List(ctx context.Context, principal, after string, limit int) (list []*tasks.Task, next string, err error) {
	cursor, ok := cursorOf(after)
	if !ok {
		return nil, "", tasks.ErrCursor
	}
	filter := store.Filter{Audience: c.rows.audience, Owner: c.rows.owner(principal), Mode: store.ModeTask}
	for record, err := range c.rows.list(ctx, filter, cursor, limit+1) {
		if err != nil {
			return nil, "", c.report(ctx, "task", err)
		}
		if len(list) == limit {
			return list, cursorText(cursor), nil
		}
		cursor = store.Cursor{Created: record.Created, ID: record.ID}
		if err := c.permitted(ctx, principal, record.Tool, record.Revision); errors.Is(err, tasks.ErrNotFound) || turns.WantsPermission(err) {
			continue
		} else if err != nil {
			return nil, "", err
		}
		t, err := c.listed(record)
		if err != nil {
			c.Turns.Log.ErrorContext(ctx, "a task is left out of its owner's list, as it cannot be read", "tool", record.Tool, "record", record.ID.String(), "error", err)
		} else if t != nil {
			list = append(list, t)
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
	if record.Status.Over() && !s.Times.Keep.After(record.Now) {
		return nil, nil
	}
	return c.summarized(record, &s), nil
}

// cursorText is a place in a list as clients carry it: in the list of another it is a place as well.
func cursorText(at store.Cursor) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(at.Created.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(b, at.ID[:]...))
}

func cursorOf(text string) (at store.Cursor, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 8+len(at.ID) {
		return at, text == ""
	}
	at = store.Cursor{Created: time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC(), ID: store.ID(b[8:])}
	return at, cursorText(at) == text
}
