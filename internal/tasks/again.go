package tasks

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Pauses between attempts to undo what could not be undone when a task ended, and for how long
// there are any.
const (
	firstUndo = time.Minute
	lastUndo  = 6 * time.Hour
	undoFor   = 14 * 24 * time.Hour
)

// undoAgain tries again to undo what could not be undone. How the task has ended stays as it is.
func (r *run) undoAgain(t *records.Task) error {
	pos, err := decodePosition(t.Again, t.Saga)
	var again []byte
	if err == nil && pos != nil {
		turn := turns.TaskTurn{Caller: turns.Caller{Principal: t.Principal}, Program: r.program, Saga: tokens.ID(t.Saga), Position: pos, Now: r.m.now(), Acting: r.acting, Undoing: func(ctx context.Context, _ engine.Undoing) error { return r.acting(ctx) }}
		var end turns.End
		end, err = r.m.Turns.UndoTask(r.ctx, turn, false, r.served, "")
		if report := turns.UndoReport(end.Result); err != nil {
			again = t.Again
		} else if report != nil && report.Again != nil {
			again = encodePosition(report.Again, true)
			r.m.Turns.Log.Error("effects of a task cannot be undone, and will be tried again", "tool", r.tool, "saga", turn.Saga.String(), "effects", report.Outstanding, "error", end.Err)
		}
	}
	return r.write(func(t *records.Task) []Event {
		now := r.m.now()
		t.Again, t.Rest, t.Base = again, time.Time{}, r.epoch
		if len(again) == 0 {
			return nil
		}
		t.Failures++
		if err != nil {
			t.LastError = clip(err.Error())
		}
		if now.Sub(t.Updated) < undoFor {
			t.Rest = now.Add(min(firstUndo<<min(t.Failures, 20), lastUndo))
		}
		return nil
	})
}
