package durable

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// cancelTask cancels the task that a saga has become, for a client that has a token of the saga. It waits
// until the task has ended, and returns what became of it.
func (c *Core) cancelTask(ctx context.Context, r *row) (*turns.End, error) {
	id := r.ID
	find := func() (*row, error) {
		r, err := c.rows.load(ctx, id)
		if err == nil && r == nil {
			err = tasks.ErrNotFound
		}
		return r, err
	}
	if _, err := c.input(ctx, find, cancelInput); err != nil {
		return nil, err
	}
	for r, err := range c.follow(ctx, nil, find) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, turns.UnderWay(ctx) // the same request waits on
		case err != nil:
			return nil, err
		case r.Status.Over():
			return c.taskEnded(r)
		case r.Final && !r.Cancelled && r.Undoing == nil:
			return failedEnd("Not cancelled: it is too late. The saga goes on as a task."), nil
		}
	}
	return nil, turns.UnderWay(ctx)
}

// taskEnded says how a task has ended, to a client that cancels it by a token.
func (c *Core) taskEnded(r *row) (*turns.End, error) {
	t, err := c.view(r)
	if err != nil {
		return nil, err
	}
	var failure *tasks.FailedError
	switch {
	case t.Status == tasks.Cancelled:
		return t.End, nil
	case t.End != nil && t.End.Result != nil:
		end := endedBefore(*t.End)
		return &end, nil
	case errors.As(t.Err, &failure):
		return failedEnd("Not cancelled: the saga has failed before. " + failure.Text), nil
	}
	return failedEnd("Not cancelled: the saga has failed before."), nil
}

func failedEnd(text string) *turns.End {
	result := content.Resultf("%s", text)
	result.IsError = true
	return &turns.End{Outcome: engine.Outcome{Result: result}}
}
