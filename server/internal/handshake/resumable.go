package handshake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/resumable"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// How resumable requests (SEP-975, package resumable) continue: with what any replica has of a call
// (requestkey.go).

// canResume reports whether the client can resume requests here.
func (c *call) canResume() bool {
	return c.Tasks != nil && c.peer != nil && c.peer.resumable && c.Client == nil
}

// readResume reads which request a request is about.
func (c *call) readResume() (t resumable.Ticket, err error) {
	if !c.canResume() {
		return t, wire.NotFound()
	}
	return resumable.Read(c.Turns, c.Principal, c.Message)
}

// renew shows that the client of a request that can be resumed is there.
func (c *call) renew(ctx context.Context, t resumable.Ticket) (*tasks.Task, *resumption, error) {
	task, err := c.Tasks.Get(ctx, c.Principal, t.Task)
	if err == nil {
		kept := resumptionOf(task)
		if kept == nil {
			return nil, nil, resumable.Err
		}
		confirm := c.confirm(task)
		task, err = c.Tasks.Renew(ctx, c.Principal, t.Task, patienceFor(kept.wait()), changeNote(func(n *taskNote) {
			if n.Resumption != nil {
				confirm(n.Resumption)
			}
		}))
	}
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil, nil, resumable.Err
	case err != nil:
		return nil, nil, err
	}
	return task, resumptionOf(task), nil
}

// resume answers requests/resume as the request that it resumes.
func (c *call) resume(ctx context.Context) (json.RawMessage, error) {
	t, err := c.readResume()
	if err != nil {
		return nil, err
	}
	if _, ok := c.Way.(dialect.Leaver); !ok {
		return nil, resumable.ErrNoStream
	}
	task, err := c.Tasks.Get(ctx, c.Principal, t.Task)
	if err == nil && resumptionOf(task) == nil {
		return nil, resumable.Err
	}
	r := &reader{call: c, uri: t.URI}
	r.token.Store(true)
	if err == nil {
		task, err = r.enter(ctx, task, c.confirm(task))
	}
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil, resumable.Err
	case err != nil:
		return nil, err
	}
	c.Notifier.Token = t.Token
	note := noteOf(task)
	if c.post != nil {
		r.number = numberOfTask(task)
		if own := note.Call; (own == nil || !bytes.Equal(own.Session, c.post.agreed.id[:])) && !task.Status.Ended() {
			r.enroll(ctx, task.ID, true)
		}
	}
	return r.resumed(ctx, task, note.Resumption.Seen)
}

// resumed is the response to a request that resumes a call.
func (r *reader) resumed(ctx context.Context, task *tasks.Task, seen uint64) (json.RawMessage, error) {
	task, err := r.read(ctx, task, seen)
	var lacking *engine.UnsupportedError
	switch {
	case errors.Is(err, dialect.ErrCancelled):
		r.giveUp(ctx, r.task)
		return nil, err
	case errors.As(err, &lacking): // another session of the client's may be able to
		return nil, wire.NewError(wire.CodeInvalidRequest, r.lacks(lacking)+"; resume the request with a client that can be asked")
	case errors.Is(err, tasks.ErrNotFound):
		return nil, resumable.Err
	case err != nil:
		return nil, err
	}
	result, err := r.finalResult(ctx, task)
	return r.resultOf(task, result, err)
}

// policy is when the client gets a token to resume its request by, as that takes long; zero if it does not, or
// has it.
func (r *reader) policy() time.Time {
	if r.token.Load() {
		return time.Time{}
	}
	return r.resumes
}

// sendPolicyLate sends the token.
func (r *reader) sendPolicyLate() {
	r.resumes = time.Time{}
	r.token.Store(true) // before the client reads it
	if r.sendPolicy(r.task) != nil {
		r.token.Store(false)
	}
}

// requestStatus answers requests/getStatus.
func (c *call) requestStatus(ctx context.Context) (json.RawMessage, error) {
	t, err := c.readResume()
	if err != nil {
		return nil, err
	}
	task, kept, err := c.renew(ctx, t)
	if err != nil {
		return nil, err
	}
	status := "processing"
	if task.Status.Ended() {
		status = "completed"
		if task.Status == tasks.Completed { // its response need not be made to know that
		} else if _, err := (&reader{call: c, task: t.Task}).finalResult(ctx, task); err != nil {
			status = "failed"
		}
	}
	asks := task.Status == tasks.InputRequired
	pending := asks || task.Status.Ended() && kept.Seen < task.Events
	if !pending {
		if pending, err = c.hasMessage(ctx, t, kept.Seen); err != nil {
			return nil, err
		}
	}
	return resumable.Status(status, pending, asks), nil
}

// eventsAtOnce is how many events are read at once.
const eventsAtOnce = 100

// hasMessage reports whether the task has an event after that one which the client would get.
func (c *call) hasMessage(ctx context.Context, t resumable.Ticket, after uint64) (bool, error) {
	for {
		events, err := c.Tasks.Events(ctx, c.Principal, t.Task, after, eventsAtOnce)
		if err != nil {
			return false, err
		}
		for i := range events {
			e := &events[i]
			if e.Progress != nil && t.Token != nil || e.Log != nil && e.Log.Level >= c.peer.level.Level() {
				return true, nil
			}
			after = e.N
		}
		if len(events) < eventsAtOnce {
			return false, nil
		}
	}
}

// confirm takes down what the client of a request shows to have got, by the id of the last event that it has:
// that says how much of which request's task was passed on, to any replica.
func (c *call) confirm(task *tasks.Task) func(*resumption) {
	last, ok := parseEventID(c.Header.Get("Last-Event-ID"))
	return func(r *resumption) {
		if ok && last.number == numberOfTask(task) {
			r.Seen = max(r.Seen, last.seen)
		}
	}
}

// takeOver ends the call that a request resumes or repeats, if that is still under way in its
// session here: two cannot have the same id. It returns the task of a call that is resumed.
func (d *handshake) takeOver(ctx context.Context, x *dialect.Exchange, s *session, m *wire.Message) (task string, rerr *wire.Error) {
	switch {
	case d.method(m).numbered && m.Method != resumable.Method && m.Method != resultMethod:
		s.endOlder(ctx, m.ID, func(old *sessionCall) bool { return sameCall(m, old.message) })
		return "", nil
	case m.Method != resumable.Method || !s.resumable:
		return "", nil
	}
	t, err := resumable.Read(d.Turns, x.Principal, m)
	switch {
	case errors.Is(err, resumable.Err):
		return "", resumable.Err // also where the id is in use
	case err != nil:
		return "", nil // its answer says why
	}
	s.endOlder(ctx, m.ID, func(old *sessionCall) bool { return old.task == t.Task })
	return t.Task, nil
}

// endOlder ends the call with an id without an answer, if it is one that a request continues.
func (s *session) endOlder(ctx context.Context, id jsontext.Value, is func(*sessionCall) bool) {
	ctx, cancel := context.WithTimeout(ctx, takeOverTime)
	defer cancel()
	for {
		s.mu.Lock()
		old := s.calls[string(id)]
		ours := old != nil && is(old)
		s.mu.Unlock()
		if !ours {
			return
		}
		(&way{session: s, call: old}).Leave()
		select {
		case <-old.over:
		case <-ctx.Done():
			return
		}
	}
}

// takeOverTime is how long a request waits for the end of what it takes the place of.
const takeOverTime = 5 * time.Second
