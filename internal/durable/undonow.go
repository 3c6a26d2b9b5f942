package durable

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// ErrTooLate: what the task did is final, so it only goes forward.
var ErrTooLate = errors.New("it is too late to undo it: what it did is final")

// UndoNow has a saga undone that [Core.Waiting] has listed: a task is cancelled, one that its client drives ends
// although that could still come back, and what could not be undone before is tried again. A turn
// that is under way ends first. It fails with [ErrNothingWaits] or [ErrTooLate].
func (c *Core) UndoNow(ctx context.Context, id store.ID) error {
	find := func() (*row, error) {
		r, err := c.rows.load(ctx, id)
		if err == nil && r == nil {
			err = ErrNothingWaits
		}
		return r, err
	}
	var refused error
	_, err := c.input(ctx, find, func(r *row) (input *event, run bool, err error) {
		switch refused = nil; {
		case r.Status == store.Ended, r.Client != nil && r.Wake.IsZero() && r.Status == store.Waiting:
			refused = ErrNothingWaits
		case r.Final && !r.Status.Over():
			refused = ErrTooLate
		default:
			return &event{kind: kindUndo}, true, nil
		}
		return nil, false, nil
	})
	if refused != nil {
		return refused
	}
	return err
}
