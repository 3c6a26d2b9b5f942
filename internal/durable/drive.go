package durable

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// run drives the saga until it ends, waits or is another process's.
func (h *hold) run() {
	defer h.c.worker.release(h)
	defer h.notes.stop()
	if err := engine.Protect(h.drive); err != nil && !errors.Is(err, errLost) && h.ctx.Err() == nil {
		r, _, _ := h.look()
		h.c.Turns.Log.Error("a saga is left for another try", "tool", r.Tool, "error", err)
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
			return h.putBack(notServedPause, nil)
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
			_, err = h.undo(r, errAttempts)
		case !h.served:
			_, err = h.undo(r, errRevision)
		case r.Status == store.Sleeping && now.Before(r.Times.Asleep.Add(-clockSlack)):
			return h.commit(func(r *row) []event { h.sleep(r); return []event{{kind: kindRest}} })
		default:
			again, err = h.step(r, now)
		}
		if err != nil || !again {
			return err
		}
	}
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

// putBack leaves the saga for later, because of an error or nothing.
func (h *hold) putBack(pause time.Duration, why error) error {
	return h.commit(func(r *row) []event {
		status := r.Status
		h.rest(r, status, r.now().Add(pause))
		e := event{kind: kindRest}
		if why != nil {
			r.Running.Failures++
			r.Running.Doubt = r.Running.Doubt || !errors.As(why, new(*turns.HookError)) // which kept everything from being done
			r.Running.LastError = clip(why.Error())
			e.Text = r.Running.LastError
		}
		return []event{e}
	})
}

// putBackOnce is putBack for what has not begun here: if it cannot be written, the saga comes again when
// the lease is over.
func (h *hold) putBackOnce(pause time.Duration) error {
	h.lock()
	defer h.unlock()
	err := h.prepare(func(r *row) []event {
		h.rest(r, r.Status, r.now().Add(pause))
		return []event{{kind: kindRest}}
	})
	if err == nil {
		err = h.send()
	}
	return err
}

// failed leaves a saga for later that could not go on. The pauses grow.
func (h *hold) failed(r *row, why error) error {
	pause := min(firstPause<<min(r.Running.Failures, 20), lastPause)
	if left := r.Times.over().Sub(r.now()); left > 0 && !r.Cancelled {
		pause = max(min(pause, left), firstPause) // to be undone in time
	}
	return h.putBack(pause, why)
}

// handOver gives the saga to whatever worker takes it next. doubt says that this process may have done
// more than is known.
func (h *hold) handOver(doubt bool) error {
	return h.commit(func(r *row) []event {
		status, wake := r.Status, dueAt(r.now())
		if status != store.Sleeping && status != store.Waiting || r.Cancelled {
			status = store.Working
		}
		h.rest(r, status, wake)
		r.Running.Doubt = r.Running.Doubt || doubt
		return []event{{kind: kindRest}}
	})
}

// wait puts a saga to rest until its client answers, unless that wants something else.
func (h *hold) wait(r *row) {
	if r.Cancelled {
		return
	}
	h.rest(r, store.Waiting, waitsUntil(r))
}

// waitsUntil is when a saga that waits for its client is to be looked at.
func waitsUntil(r *row) time.Time {
	if over := r.Times.over(); !over.IsZero() {
		return over
	}
	return r.now().Add(never)
}

// sleep puts a saga to rest until it is to go on, or over.
func (h *hold) sleep(r *row) { h.rest(r, store.Sleeping, sleepsUntil(r)) }

func sleepsUntil(r *row) time.Time {
	if over := r.Times.over(); !over.IsZero() && over.Before(r.Times.Asleep) {
		return over
	}
	return r.Times.Asleep
}

// longTurn is how long a turn has run before the saga is watched: most are over by then.
const longTurn = 50 * time.Millisecond

// watched has a turn be cut off when its saga is cancelled, over, or another process's. stop is to be
// called after the turn.
func (h *hold) watched(turn *turnContext, r *row) (stop func()) {
	after := longTurn
	if over := r.Times.over(); !over.IsZero() {
		after = max(0, min(after, over.Sub(r.now())))
	}
	t := time.AfterFunc(after, func() { h.watch(turn) })
	return func() { t.Stop() }
}

func (h *hold) watch(turn context.Context) {
	changed, stop := h.c.hub.wait(h.id())
	defer stop()
	for turn.Err() == nil {
		h.lock()
		err := h.reload()
		r := h.row
		h.unlock()
		if errors.Is(err, errLost) {
			return
		}
		left, timed := h.c.Poll, false
		if over := r.Times.over(); !over.IsZero() && over.Sub(r.now()) < left {
			left, timed = over.Sub(r.now()), true
		}
		timer := time.NewTimer(left)
		select {
		case <-turn.Done():
		case <-changed:
		case <-timer.C:
			if timed && isOver(r, r.now()) {
				h.stop(errOver)
			}
		}
		timer.Stop()
	}
}
