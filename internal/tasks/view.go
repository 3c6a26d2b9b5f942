package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// report makes sure that an error is one of those that [Viewer] names.
func (m *Manager) report(ctx context.Context, method string, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrExists), errors.Is(err, ErrTooMany), errors.As(err, new(*turns.Error)):
		return err
	}
	return m.Turns.Report(ctx, method, err)
}

// find returns the record of a task, or [ErrNotFound].
func (m *Manager) find(ctx context.Context, principal, id string) (*records.TaskEntry, error) {
	if id == "" {
		return nil, ErrNotFound
	}
	e, err := m.book.Task(ctx, principal, id)
	if err != nil {
		return nil, m.report(ctx, "task", err)
	}
	if e == nil || m.forgotten(e) {
		return nil, ErrNotFound
	}
	return e, nil
}

// forgotten reports whether a record may be forgotten at any time: then it is.
func (m *Manager) forgotten(e *records.TaskEntry) bool {
	return e.State == records.TaskEnded && !e.Keep.After(m.now())
}

// Get implements [Viewer].
func (m *Manager) Get(ctx context.Context, principal, id string) (*Task, error) {
	e, err := m.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	m.looked(ctx, e)
	return m.view(e)
}

// Status implements [Viewer].
func (m *Manager) Status(ctx context.Context, principal, id string) (*Task, error) {
	e, err := m.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	m.looked(ctx, e)
	return m.glance(e)
}

// view shows a record.
func (m *Manager) view(e *records.TaskEntry) (*Task, error) {
	t, err := m.glance(e)
	if err == nil && (t.Status == Completed || t.Status == Cancelled) {
		if t.End, err = turns.DecodeEnd(e.End); err != nil {
			return nil, damaged(err)
		}
	}
	return t, err
}

// glance shows a record but for the result.
func (m *Manager) glance(e *records.TaskEntry) (*Task, error) {
	if r := m.crew.find(e.Key()); r != nil {
		r.shown.saw(e)
	}
	t := &Task{
		ID: e.ID, Saga: e.Saga, Note: json.RawMessage(e.Note), Created: e.Created, Updated: e.Updated, TTL: e.TTL, Poll: e.Poll,
		Status: status(e), Message: e.Message, Cancelling: e.Cancelled, Events: e.Events, Told: e.Told, Rev: e.Rev(), entry: e,
	}
	t.Given = decodeGiven(e.Given)
	t.Program, _ = m.Turns.ProgramOf(e.Target.Name, e.Target.Revision)
	var err error
	if t.Progress, err = decodeProgress(e.Progress); err != nil {
		return nil, damaged(err)
	}
	switch t.Status {
	case InputRequired:
		t.Questions, t.Numbers, err = questionsOf(&e.Task)
	case Completed:
		if t.Bad = e.Bad; !e.Judged { // by a server that did not say so
			var end *turns.End
			if end, err = turns.DecodeEnd(e.End); err == nil {
				t.Bad = isBad(end)
			}
		}
	case Failed:
		t.Err = decodeFailure(e.End)
	}
	if err != nil {
		return nil, damaged(err)
	}
	if e.Said != "" {
		t.Message = e.Said
	}
	return t, nil
}

// isBad reports whether a task has ended with a result that says that the tool has failed.
func isBad(end *turns.End) bool { return end.Result != nil && end.Result.IsError }

func damaged(err error) error {
	return &turns.Error{Err: errors.Join(records.ErrUnreadable, err)}
}

func status(e *records.TaskEntry) Status {
	switch {
	case e.State == records.TaskEnded:
		return Status(e.Status)
	case e.State == records.TaskWaiting && !e.Cancelled && len(e.Undo) == 0:
		return InputRequired
	case e.State == records.TaskQueued && e.Epoch() == 0:
		return Queued
	}
	return Working
}

// questionsOf are those that the client has not answered, with their numbers.
func questionsOf(t *records.Task) (theirs []steps.Step, numbers []uint64, err error) {
	asked, err := decodeRequest(t.Request)
	if err != nil {
		return nil, nil, err
	}
	questions, err := decodeQuestions(t.Questions)
	if err != nil {
		return nil, nil, err
	}
	answers, err := decodeAnswers(t.Answers)
	_, theirs = open(questions, answers, asked.client)
	next := 0
	for i, q := range questions {
		if next < len(theirs) && theirs[next].ID == q.ID {
			numbers = append(numbers, numberOf(t, len(questions), i))
			next++
		}
	}
	return theirs, numbers, err
}

// numberOf is the number of the ith of the n questions that a task asks now.
func numberOf(t *records.Task, n, i int) uint64 { return t.Asked - uint64(n-i-1) }

// Watch implements [Viewer].
func (m *Manager) Watch(ctx context.Context, principal, id string, after uint64) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		var seen uint64
		var last Status
		shown := false
		looking, stop := context.WithCancel(ctx) // as who watches a task does all the time
		defer stop()
		looks := false
		show := func(e *records.TaskEntry) (more bool) {
			if !looks && crowded(e) {
				looks = true
				go m.keepLooking(looking, e)
			}
			if e.Rev() <= after { // or the store has shown a newer one before who has written it
				return true
			}
			after = e.Rev()
			if shown && e.Seen == seen && status(e) == last {
				return e.State != records.TaskEnded
			}
			shown, seen, last = true, e.Seen, status(e)
			t, err := m.view(e)
			return yield(t, err) && err == nil && !t.Status.Ended()
		}
		var watched *records.TaskEntry
		for {
			r := m.runs(principal, id)
			var e *records.TaskEntry
			for r != nil { // here, so the store need not be asked
				var changed <-chan struct{}
				e, changed = r.shown.get()
				if e != nil && !show(e) {
					return
				}
				if changed == nil {
					break
				}
				select {
				case <-changed:
				case <-ctx.Done():
					yield(nil, &turns.Error{Err: ctx.Err()}) // who has seen enough is no news
					return
				}
			}
			if e == nil { // else the store is asked for what is newer
				var err error
				if e, err = m.find(ctx, principal, id); err != nil {
					yield(nil, err)
					return
				}
			}
			if watched != nil && watched.Saga != e.Saga {
				yield(nil, ErrNotFound) // it was forgotten, and there is another one
				return
			}
			if watched = e; !show(e) {
				return
			}
			for found, err := range m.book.WatchTask(ctx, e, max(after, e.Rev())) {
				if err != nil && ctx.Err() != nil {
					yield(nil, &turns.Error{Err: ctx.Err()})
					return
				}
				if err != nil {
					yield(nil, m.report(ctx, "task", err))
					return
				}
				if found.Saga != e.Saga {
					yield(nil, ErrNotFound)
					return
				}
				if !show(found) {
					return
				}
				if now := m.crew.find(e.Key()); found.Taken() && now != nil && now != r {
					break // it goes on here
				}
			}
		}
	}
}

// Notify implements [Viewer].
func (m *Manager) Notify(ctx context.Context, principal, id string, changed func()) (stop func(), err error) {
	e, err := m.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	return m.book.NotifyTask(e, changed), nil
}

// Events implements [Viewer].
func (m *Manager) Events(ctx context.Context, principal, id string, after uint64, limit int) ([]Event, error) {
	if r := m.runs(principal, id); r != nil {
		if list, ok := r.shown.since(after, limit, m.now()); ok {
			return list, nil
		}
	}
	e, err := m.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	if limit <= 0 || after >= e.Events {
		return nil, nil
	}
	items, err := m.book.TaskItems(ctx, e, after, limit)
	if err != nil {
		return nil, m.report(ctx, "task", err)
	}
	list := make([]Event, 0, len(items)+1)
	for _, item := range items {
		event, err := decodeEvent(item.N, item.Body)
		if err != nil {
			return nil, damaged(err)
		}
		list = append(list, event)
	}
	// The last event of a task that has ended is in its record.
	if e.State == records.TaskEnded && len(list) < limit && (len(list) == 0 || list[len(list)-1].N < e.Events) {
		list = append(list, endEvent(e))
	}
	return list, nil
}

func endEvent(e *records.TaskEntry) Event {
	return Event{N: e.Events, At: e.Updated, Kind: EventStatus, Status: status(e)}
}

// List implements [Viewer].
func (m *Manager) List(ctx context.Context, principal, after string, limit int) (list []*Task, next string, err error) {
	m.sync(ctx)
	for limit > 0 {
		found, more, err := m.book.OwnTasks(ctx, principal, after, limit)
		if err != nil {
			return nil, "", m.report(ctx, "task", err)
		}
		for _, e := range found {
			if m.forgotten(e) {
				continue
			}
			t, err := m.glance(e)
			if err != nil {
				m.Turns.Log.ErrorContext(ctx, "a task is left out of its owner's list, as it cannot be read", "tool", e.Target.Name, "saga", fmt.Sprintf("%x", e.Saga), "error", err)
				continue
			}
			list = append(list, t)
		}
		if next = more; len(list) > 0 || more == "" {
			break
		}
		after = more
	}
	return list, next, nil
}
