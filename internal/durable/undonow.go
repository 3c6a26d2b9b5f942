package durable

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// ErrTooLate: what the task did is final, so it only goes forward.
var ErrTooLate = errors.New("it is too late to undo it: what it did is final")

// UndoNow has a server undo a saga that [Operator.Waiting] has listed: a task is cancelled, one that its client
// drives ends although that could still come back, and what could not be undone before is tried again. A turn
// that is under way ends first. It fails with [ErrNothingWaits] or [ErrTooLate].
func (o *Operator) UndoNow(ctx context.Context, id store.ID) error {
	for {
		r, err := o.rows.load(ctx, id)
		switch {
		case err != nil:
			return err
		case r == nil, r.Status == store.Ended, r.Client != nil && r.Wake.IsZero() && r.Status == store.Waiting:
			return ErrNothingWaits
		case r.Status == store.Outstanding && r.Until.After(r.now()):
			return nil // it is being tried again
		case r.Status == store.Outstanding: // which takes no signals
			r.Fence++
			r.Running.Doubt, r.Running.Tries, r.Running.Held = uncertain(r), r.Running.Tries+r.Record.Tries, false
			r.Wake = dueAt(r.now())
			r.Keep = keepUntil(r)
			err = o.rows.write(ctx, r, 0, 0, event{kind: kindUndo})
		case r.Final:
			return ErrTooLate
		default:
			err = o.rows.signal(ctx, r, event{kind: kindUndo})
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
}
