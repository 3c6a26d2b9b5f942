package handshake

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// callTask calls a tool for a client that waits for the result. The work is a task all the
// same, so it goes on when the connection breaks or the server dies; a client that calls again
// with the same idempotency key waits for the same task.
func (c *call) callTask(ctx context.Context, t *engine.Program, args json.RawMessage) (*content.Result, error) {
	q, err := c.taskRequest(t, args)
	if err != nil {
		return nil, err
	}
	start := tasks.Start{Request: q, AtOnce: true}
	r, err := c.resumable(t, &start)
	if err != nil {
		return nil, err
	}
	task, err := c.Tasks.Start(ctx, start)
	if err != nil {
		return nil, err
	}
	if r != nil {
		return r.begin(ctx, task, q.IdempotencyKey)
	}
	ttl := c.Turns.Codec.Options().TTL // as in turns.Drive
	w := &waiter{call: c, task: task.ID, patience: ttl - ttl/10}
	if kept := resumptionOf(task.Note); kept != nil { // another call of the same key can be resumed
		defer (&reader{call: c, task: task.ID, maxWait: kept.MaxWait}).keep(ctx)()
	}
	task, err = w.wait(ctx)
	if err != nil {
		if c.isOver(ctx, err, q.IdempotencyKey) {
			c.giveUp(ctx, w.task)
		}
		return nil, err
	}
	return w.outcome(ctx, task)
}

// taskRequest is what a task begins with.
func (c *call) taskRequest(t *engine.Program, args json.RawMessage) (q turns.Request, err error) {
	q = c.Turn(turns.Held)
	q.Program, q.Arguments, q.Client, q.Notifier = t, args, c.features, nil
	key, rerr := c.IdempotencyKey(c.Exchange)
	if rerr != nil {
		return q, rerr
	}
	q.IdempotencyKey = key
	return q, nil
}

// isOver reports whether nobody comes back for the result of a call, whose wait has failed with
// err: the client has cancelled it, or it reads that it is to call again, and its call will
// not be known again. A client that is only gone may have sent the same request elsewhere.
func (c *call) isOver(ctx context.Context, err error, key string) bool {
	switch {
	case errors.Is(err, dialect.ErrCancelled), c.Client != nil && ctx.Err() != nil:
		return true
	case key != "":
		return false
	}
	return errors.Is(err, dialect.ErrStopping) || errors.As(err, new(*engine.UnsupportedError))
}

// giveUp cancels a task.
func (c *call) giveUp(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outage)
	defer cancel()
	if _, err := c.Tasks.Cancel(ctx, c.Principal, id); err != nil && !errors.Is(err, tasks.ErrNotFound) {
		c.Log.WarnContext(ctx, "task not cancelled: it goes on until its time is over", "error", err)
	}
}

// outcome is what the call of a task that has ended has for a result, which begins with all
// that the tool has yielded.
func (c *waiter) outcome(ctx context.Context, t *tasks.Task) (*content.Result, error) {
	if t.Status == tasks.Failed {
		return c.failure(ctx, t)
	}
	result := *t.End.Result
	if t.Status == tasks.Cancelled { // it is not what was called for
		result.IsError = true
	}
	if !result.IsError {
		c.opened()
	}
	if t.Program == nil || !t.Program.Yields {
		return &result, nil
	}
	var parts content.Blocks
	for n := uint64(0); n < t.Events; {
		events, err := c.Tasks.Events(ctx, c.Principal, t.ID, n, eventPage)
		if err != nil {
			return nil, err
		}
		for i := range events {
			parts, n = append(parts, events[i].Content...), events[i].N
		}
		if len(events) < eventPage {
			break
		}
	}
	result.Content = slices.Concat(parts, result.Content)
	return &result, nil
}

// failure is how a call whose task has failed ends: with a result for whoever called the tool,
// where that can do something about it.
func (c *call) failure(ctx context.Context, t *tasks.Task) (*content.Result, error) {
	if r := c.stopped(t.Err); r != nil {
		return r, nil
	}
	var failed *tasks.FailedError
	if errors.As(t.Err, &failed) {
		r := content.Resultf("%s", failed.Text)
		r.IsError = true
		return r, nil
	}
	return nil, c.TaskFailure(ctx, t)
}
