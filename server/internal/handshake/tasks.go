package handshake

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/tasks2025"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// How the tasks of MCP 2025-11-25 are begun and waited for: with what other calls have as well. The
// rest of that protocol is in package tasks2025.

// offersTasks reports whether a client is offered tasks.
func (d *handshake) offersTasks(p *peer) bool {
	return d.taskTools != nil && p != nil && p.revision.Tasks()
}

// taskView is the request as one that looks at tasks.
func (c *call) taskView() tasks2025.Request {
	return tasks2025.Request{Host: c.Host, Exchange: c.Exchange, By: c}
}

// looking is a method for clients that are offered tasks.
func looking(serve func(tasks2025.Request, context.Context) (json.RawMessage, error)) func(*call, context.Context) (json.RawMessage, error) {
	return func(c *call, ctx context.Context) (json.RawMessage, error) {
		if !c.offersTasks(c.peer) {
			return nil, wire.NotFound()
		}
		return serve(c.taskView(), ctx)
	}
}

// createTask begins a task and answers with it.
func (c *call) createTask(ctx context.Context, t *engine.Program, args json.RawMessage, ttl time.Duration) (json.RawMessage, error) {
	q, err := c.taskRequest(t, args)
	if err != nil {
		return nil, err
	}
	q.Client = c.peer.features // the request that waits for the result asks
	var note taskNote
	if c.Notifier != nil {
		note.Token = c.Notifier.Token
	}
	raw, err := wire.Marshal(note)
	if err != nil {
		return nil, err
	}
	task, err := c.Tasks.Start(ctx, tasks.Start{Request: q, Account: c.ledgerAccount(), Shared: c.Shares(), AtOnce: true, TTL: ttl, Note: raw})
	if err != nil {
		return nil, err
	}
	b, err := c.taskView().Append(ctx, []byte(`{"task":`), task)
	c.begun(ctx, task.ID)
	return append(b, '}'), err
}

// taskResult waits for the end of a task and answers as the call would have. What it sends
// meanwhile says which task it is of.
func (c *call) taskResult(ctx context.Context) (json.RawMessage, error) {
	if !c.offersTasks(c.peer) {
		return nil, wire.NotFound()
	}
	id, err := c.taskView().TaskID()
	if err != nil {
		return nil, err
	}
	task, err := c.Tasks.Get(ctx, c.Principal, id)
	if err != nil {
		return nil, err
	}
	r := &reader{call: c}
	if c.streams() && !task.Status.Ended() {
		r.enroll(ctx, id, false)
	}
	return c.readResult(ctx, r, task, 0)
}

// readResult is taskResult for a task that was found.
func (c *call) readResult(ctx context.Context, r *reader, task *tasks.Task, seen uint64) (json.RawMessage, error) {
	id := task.ID
	changed := func(*tasks.Task) {}
	if c.Way != nil {
		way := tasks2025.Related{Way: c.Way, Task: id}
		c.Way, c.Notifier.Way = way, way
		if note := noteOf(task); c.Notifier.Token == nil && note != nil && wire.ValidID(note.Token) {
			c.Notifier.Token = note.Token
		}
		last := ""
		changed = func(t *tasks.Task) {
			b, err := c.taskView().Append(ctx, nil, t)
			if now := dialect.TaskStatus(t.Status) + t.Message; err == nil && now != last {
				last = now
				way.Notify(tasks2025.StatusMethod, b)
			}
		}
	}
	if !task.Status.Ended() {
		var err error
		r.seen = changed
		if task, err = r.read(ctx, task, seen); err != nil {
			if r := c.stopped(err); r != nil {
				return nil, wire.NewError(wire.CodeInvalidRequest, r.Content.Text())
			}
			return nil, err
		}
	}
	c.knows(id)
	result, err := r.outcome(ctx, task)
	if err != nil {
		return nil, err
	}
	raw, err := wire.Marshal(c.peer.revision.Result(result.Result))
	if err != nil {
		return nil, err
	}
	return dialect.RelatedTask(raw, id), nil
}

// resultMethod is the method that waits for a task.
const resultMethod = "tasks/result"
