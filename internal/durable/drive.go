package durable

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// run drives the saga until it ends, waits or is another process's.
func (h *hold) run() {
	defer h.c.worker.release(h)
	defer h.notes.stop()
	err := engine.Protect(func() error {
		if err := h.catchUp(); err != nil {
			return err
		}
		h.logTaken()
		return h.drive()
	})
	r, _, _ := h.look()
	h.logLeft(r.Tool, err)
}

// catchUp finds out what others have written while the saga has waited for a slot.
func (h *hold) catchUp() error {
	if h.share == nil || !h.share.waited {
		return nil
	}
	h.lock()
	defer h.unlock()
	return h.retry(h.reload)
}

// logTaken logs that a saga is driven here whose server went down.
func (h *hold) logTaken() {
	r, _, _ := h.look()
	switch attrs := []any{"tool", r.Tool, "saga", r.Saga.String(), "attempts", h.tries - 1}; {
	case h.tries > h.c.Attempts:
		h.c.Turns.Log.Error("a saga is given up: each server that tried to go on with it went down, or lost it", attrs...)
	case h.tries > 1:
		h.c.Turns.Log.Warn("a saga is taken over, whose server went down or lost it", attrs...)
	}
}

// logLeft logs the error, if any, because of which this process drives a saga no further.
func (h *hold) logLeft(tool string, err error) {
	if err != nil && !errors.Is(err, errLost) && h.ctx.Err() == nil {
		h.c.Turns.Log.Error("a saga is left for another try", "tool", tool, "error", err)
	}
}

// drive takes one turn after the other. What comes next follows from the row alone.
func (h *hold) drive() error {
	for {
		r, lost, handing := h.look()
		now := r.now()
		again := false
		var err error
		switch {
		case lost:
			return errLost
		case h.program == nil:
			return h.putBack(notServedPause)
		case h.tries > h.c.Attempts && (r.Status.Over() || r.Undoing != nil):
			return h.undoLater(errBreaks)
		case r.Status.Over():
			return h.undoAgain(r)
		case handing && !(r.Mode == store.ModeCall && r.Cancelled): // whose client knows that it ends
			return h.handOver(false)
		case r.Undoing != nil:
			again, err = h.goOnUndoing(r)
		case r.Client != nil:
			return h.driveClient(r, now)
		case r.Cancelled:
			again, err = h.undo(r, errCancelled)
		case isOver(r, now):
			_, err = h.undo(r, errOver)
		case h.tries > h.c.Attempts:
			_, err = h.undo(r, h.gaveUp(r))
		case !h.served:
			_, err = h.undo(r, errRevision)
		case r.Status == store.Sleeping && now.Before(r.Times.Asleep.Add(-clockSlack)):
			return h.commit(func(r *row) []event { return h.pause(r, store.Sleeping) })
		default:
			again, err = h.step(r, now)
		}
		if err != nil || !again {
			return err
		}
	}
}

// gaveUp is why a saga is undone that takes servers down.
func (h *hold) gaveUp(r *row) error {
	if h.begunUnknown(r) {
		return &tasks.FailedError{Text: errAttempts.Text + " What it did last is not known, and may not be undone."}
	}
	return errAttempts
}

// begunUnknown reports whether something may have been begun that no server has lived to say, so that it is not undone.
func (h *hold) begunUnknown(r *row) bool {
	known := r.Stand.Begun != nil || r.Client != nil && (r.Client.Turn == nil || r.Client.Turn.Did != nil)
	return h.tries > h.c.Attempts && !known && h.doubts() && h.program.Acts()
}

// clockSlack is a difference of clocks that does not count.
const clockSlack = 20 * time.Millisecond

// never is when a saga that nothing ends is looked at again.
const never = 10 * 365 * 24 * time.Hour

func isOver(r *row, now time.Time) bool {
	over := r.Times.over()
	return !over.IsZero() && !now.Before(over)
}

// Pauses between attempts.
const (
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	// notServedPause is how long a saga is left that no program here is for.
	notServedPause = time.Minute
)

// putBack leaves the saga for later, as it is.
func (h *hold) putBack(pause time.Duration) error { return h.commit(h.restFor(pause)) }

// restFor returns a change that puts the saga to rest for a while, or at most until it is cancelled. That is no success: the
// attempts before this one still count.
func (h *hold) restFor(pause time.Duration) func(*row) []event {
	was, _, _ := h.look()
	return func(r *row) []event {
		wake := r.now().Add(pause)
		if r.Cancelled && !was.Cancelled { // meanwhile
			wake = dueAt(r.now())
		}
		events := h.rest(r, r.Status, wake)
		r.Running.Tries = h.tries - 1
		return events
	}
}

// failed leaves a saga for later that could not go on. The pauses grow.
func (h *hold) failed(r *row, why error) error {
	pause := min(firstPause<<min(r.Running.Failures, 20), lastPause)
	if left := r.Times.over().Sub(r.now()); left > 0 && !r.Cancelled {
		pause = max(min(pause, left), firstPause) // to be undone in time
	}
	rest := h.restFor(pause)
	return h.commit(func(r *row) []event {
		events, run := rest(r), &r.Running
		run.Tries, run.Failures = 0, run.Failures+1                     // it has not gone down
		run.Doubt = run.Doubt || !errors.As(why, new(*turns.HookError)) // which kept everything from being done
		run.LastError = clip(why.Error())
		events[0].Text = run.LastError
		return events
	})
}

// handOver gives the saga to whatever worker takes it next. doubt says that this process may have done
// more than is known.
func (h *hold) handOver(doubt bool) error {
	return h.commit(func(r *row) []event {
		status, wake := r.Status, dueAt(r.now())
		if status != store.Sleeping && status != store.Waiting || r.Cancelled {
			status = store.Working
		}
		r.Running.Doubt = r.Running.Doubt || doubt
		return h.rest(r, status, wake)
	})
}

// pause puts a saga to rest until its client answers, or it has slept.
func (h *hold) pause(r *row, status store.Status) []event {
	r.Status, r.Shown.Outside = status, len(r.theirs()) == 0
	return h.rest(r, status, r.pausesUntil())
}

// pausesUntil is when a saga that waits for its client, or sleeps, is to be looked at.
func (r *row) pausesUntil() time.Time {
	switch over := r.until(); {
	case r.Cancelled, r.Status == store.Waiting && !r.waits(): // meanwhile
		return dueAt(r.now())
	case r.Status == store.Sleeping && (over.IsZero() || r.Times.Asleep.Before(over)):
		return r.Times.Asleep
	case over.IsZero():
		return r.now().Add(never)
	default:
		return over
	}
}

// until is when a saga that waits is to be looked at because of the time.
func (r *row) until() time.Time {
	until := r.Times.over()
	if r.Status == store.Waiting {
		for _, e := range r.events() {
			if until.IsZero() || e.Until.Before(until) {
				until = e.Until
			}
		}
	}
	return until
}

// longTurn is how long a turn has run before the saga is watched: most are over by then.
const longTurn = 50 * time.Millisecond

// watched has a turn be cut off when its saga is cancelled, over, or another process's. stop is to be
// called after the turn.
func (h *hold) watched(turn context.Context, r *row) (stop func()) {
	after := longTurn
	if over := r.Times.over(); !over.IsZero() {
		after = max(0, min(after, over.Sub(r.now())))
	}
	t := time.AfterFunc(after, func() { h.watch(turn) })
	return func() { t.Stop() }
}

func (h *hold) watch(turn context.Context) {
	changed, stop := h.c.hub.wait(h.held.ID)
	defer stop()
	for turn.Err() == nil {
		h.lock()
		err := h.reload()
		r := h.row
		h.unlock()
		left := h.c.Poll
		switch over := r.Times.over(); {
		case errors.Is(err, errLost):
			return
		case isOver(r, r.now()):
			h.stop(errOver)
			return
		case !over.IsZero():
			left = min(left, over.Sub(r.now()))
		}
		awaits(turn, changed, left)
	}
}
