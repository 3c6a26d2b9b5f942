package durable

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Times of commits.
const (
	// writeTime bounds one attempt to write.
	writeTime = 10 * time.Second
	// writePatience is how long a worker tries to write what it has done while the store cannot be
	// used. No other worker can take the saga then either.
	writePatience = 5 * time.Minute
	firstRetry    = 50 * time.Millisecond
	lastRetry     = 5 * time.Second
)

// writing is the context of one attempt: a store that takes longer cannot be used.
func writing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, writeTime, ErrUnavailable)
}

// commit writes the next version of the row, which change makes of a copy, with the events that change returns and
// the messages of the tool. If a client has written meanwhile, change is called again, for what that has left. Unless
// change puts the row to rest, it stays this process's for another lease. It fails with [errLost] if another process
// has the saga, and with [store.ErrConflict] if that is why it cannot be acquired.
func (h *hold) commit(change func(r *row) []event) error {
	h.lock()
	defer h.unlock()
	return h.commitLocked(change)
}

func (h *hold) commitLocked(change func(r *row) []event) error {
	if h.calling != nil {
		return h.make(change)
	}
	return h.write(change)
}

// write is commitLocked for a hold that has a row, or is about to make it. What an earlier commit has sent comes
// first, if it is not known whether that was made.
func (h *hold) write(change func(r *row) []event) error {
	if err := h.retry(h.send); err != nil {
		return err
	}
	return h.retry(func() error {
		if h.sent == nil { // else this change is sent again
			if err := h.prepare(change); err != nil {
				return err
			}
		}
		return h.send()
	})
}

// retry calls write until it succeeds or cannot succeed any more. A conflict with inputs is no failure: the row is
// loaded, and write called again. While the store fails, a worker waits; a client is not kept waiting, as it can ask
// again.
func (h *hold) retry(write func() error) error {
	var failing time.Time // since when
	pause := firstRetry
	for {
		if h.lost {
			return errLost
		}
		err := write()
		if errors.Is(err, store.ErrConflict) && h.acquired {
			if err = h.reload(); err == nil {
				continue
			}
		}
		if !errors.Is(err, ErrUnavailable) || h.hasty || !h.acquired || h.ctx.Err() != nil {
			return err
		}
		if failing.IsZero() {
			failing = time.Now()
			h.c.Turns.Log.Error("the ledger cannot be used: a saga cannot be recorded", "tool", h.row.Tool, "error", err)
		}
		if time.Since(failing) > writePatience || sleep(h.ctx, pause) != nil {
			return err
		}
		pause = min(2*pause, lastRetry)
	}
}

// prepare has h.sent be the next version of the row: what change makes of a copy, with the messages of the tool. It stays
// nil if that adds nothing to the log: progress that a flow reports again is not written.
func (h *hold) prepare(change func(r *row) []event) error {
	next := h.next()
	told := h.notes.take(next)
	events := change(next)
	begun := 0
	if len(events) > 0 && events[0].kind == kindBegun {
		begun = 1 // messages come after that
	}
	events = slices.Insert(slices.Clip(events), begun, told...)
	if len(events) == 0 {
		return nil
	}
	if h.passes {
		next.Running.Held, next.Running.Tries = false, h.tries-1
	}
	if showsChange(h.row, next, events) {
		next.Shown.Changes++
		next.Shown.Updated = next.now()
	}
	next.Keep = keepUntil(next)
	t, lease := h.c.term(), h.c.Lease
	if !next.Running.Held {
		lease = 0 // the write ends it
	}
	w, err := h.c.rows.prepare(next, lease, h.most, events...)
	if err != nil {
		h.notes.back(told)
		return err
	}
	w.told, w.term = told, t
	h.sent = w
	return nil
}

// next is the next version of the row, which this process drives further, before anything has changed.
func (h *hold) next() *row {
	next := h.row.clone()
	if !h.acquired && next.Head > 0 {
		next.Fence++
	}
	next.hears(h.heard)
	next.Wake = dueAt(next.now()) // for others, once the lease is over
	run := &next.Running
	run.Held, run.Tries, run.Doubt = true, h.tries, run.Doubt || h.doubt
	if !run.Doubt {
		run.Finals = max(run.Finals, 1) // it is known then: none was begun
	}
	return next
}

// showsChange reports whether clients are to see that a row has changed.
func showsChange(was, is *row, events []event) bool {
	if is.Status != was.Status || is.Shown.Message != was.Shown.Message || is.Shown.Ending != was.Shown.Ending {
		return true
	}
	return slices.ContainsFunc(events, func(e event) bool { return traits[e.kind]&seen != 0 })
}

// send sends what is prepared, if anything is. It stays so if it is not known whether it was made: then nothing else
// is written before it is.
func (h *hold) send() error {
	w := h.sent
	if w == nil {
		return nil
	}
	ctx, cancel := writing(h.ctx)
	defer cancel()
	if err := h.c.rows.send(ctx, w); err != nil {
		if !w.unsure {
			h.notes.back(w.told)
			h.sent = nil
		}
		return err
	}
	h.c.clock.hear(w.r.Now)
	h.row, h.sent = w.r, nil
	if h.rested = !h.row.Running.Held; h.rested && !h.row.Wake.IsZero() {
		signal(h.c.worker.look)
	}
	if h.acquired {
		h.renewed(w.term)
	} else {
		h.acquire(w.term)
		h.lost = !h.rested && !h.c.worker.enter(h)
	}
	if !h.row.Running.Doubt {
		h.doubt = false
	}
	return nil
}

// acquire notes that the row is this process's from then on, and renewed that its lease has begun anew.
func (h *hold) acquire(t term) {
	h.acquired, h.most, h.held = true, 0, store.Held{ID: h.row.ID, Fence: h.row.Fence}
	h.term.Store(&t)
}

func (h *hold) renewed(t term) {
	if old := h.term.Load(); t.began.After(old.began) {
		h.term.CompareAndSwap(old, &t)
	}
}

// dueAt is a time that has come, also if the store's clock is not known to the millisecond.
func dueAt(now time.Time) time.Time { return now.Add(-100 * time.Millisecond) }

func nothing(*row) []event { return []event{{kind: kindTurn}} }

// rest puts a row to rest within a change, in a status, until it is to be looked at.
func (h *hold) rest(r *row, status store.Status, wake time.Time) []event {
	r.Status, r.Wake = status, wake
	r.Running.Held, r.Running.Tries = false, 0
	return []event{{kind: kindRest}}
}

// further notes within a change that the saga has come further.
func (h *hold) further(r *row) {
	r.Status = store.Working
	r.Running, r.Stand.Since, r.Stand.Begun = running{Held: true, Tries: 1, Finals: 1}, r.now(), nil
	h.tries = 1
}

// maxSlack is how long after its time to live a task is kept that no server has ended.
const maxSlack = 30 * 24 * time.Hour

// keepUntil is until when a row is kept.
func keepUntil(r *row) time.Time {
	switch {
	case r.Status.Over() && !r.Wake.IsZero():
		return later(r.Times.Keep, r.Wake).Add(maxSlack)
	case r.Status.Over():
		return r.Times.Keep
	case r.Client != nil && r.Wake.IsZero():
		return r.Times.Keep
	case r.Client != nil, r.Times.over().IsZero():
		return time.Time{} // a worker looks at it before
	}
	return later(later(r.Times.over(), r.Times.Due), r.Times.Keep).Add(maxSlack) // a server ends it before
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// clip bounds what is kept of an error.
func clip(text string) string {
	const most = 1000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
