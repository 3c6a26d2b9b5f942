package durable

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Why a turn is cut off.
var (
	errCancelled = errors.New("the task was cancelled")
	errStopping  = errors.New("the server is stopping")
	errOver      = errors.New("the task's time to live is over")
	// errLost: another process has the saga now, or it is gone.
	errLost = errors.New("the lease of the saga is lost")
)

// hold is a saga that this process has acquired, and drives. What clients and operators write meanwhile
// is found when the row is written: the next write meets a conflict, loads the row, and folds it in.
type hold struct {
	c       *Core
	ctx     context.Context // ends when everything is left to others
	program *engine.Program // nil if it is not served
	served  bool            // program can drive it, rather than only undo
	share   *share          // of the worker's slots; nil if it takes none
	began   time.Time

	// turn is the context of what runs; it is replaced for each turn. cut is why it was cut, if it was.
	turn atomic.Pointer[turnContext]
	cut  atomic.Pointer[error]

	mutex chan struct{} // held while the row is written
	row   *row
	// sent is what was written last, as long as it is not known whether it was made.
	sent  *sent
	lease lease
	// lost: the saga is another process's. rested: it was put to rest, and is not this process's any more.
	// handed: it was handed over.
	lost, rested, handed bool
	// handing: it is to be handed over.
	handing atomic.Bool
	// fromRest: it was at rest before it was acquired.
	fromRest bool
	// doubt: before this process has come further, more may have been done than the row says. tries
	// is how many attempts there were, with this one.
	doubt bool
	tries int
	// undone: the last checkpoint says that the turn has failed and is being undone. beganUndo: this
	// process has begun to undo it, so it knows all that was undone.
	undone, beganUndo bool
	// calling is set as long as a call has no row.
	calling *calling

	// client: a client's request drives it, whose turn is not handed over; hooked: its hook was called. why is why
	// the saga is undone, undoEnd and undoErr what came of that.
	client, hooked bool
	why            error
	undoEnd        *turns.End
	undoErr        error

	notes  notes
	pauses int // turns in a row that asked nothing
	own    int // turns in a row that asked only the server's model
}

type turnContext struct {
	context.Context
	stop context.CancelCauseFunc
}

// newHold holds a row that was acquired for a term.
func (c *Core) newHold(ctx context.Context, r *row, t term) *hold {
	h := &hold{
		c: c, ctx: ctx, mutex: make(chan struct{}, 1), row: r,
		fromRest: !r.Running.Held && r.Record.Tries == 1, tries: r.Running.Tries + r.Record.Tries,
		doubt: r.Running.Doubt || r.Running.Held || r.Record.Tries > 1,
	}
	h.lease.acquire(r, t)
	h.notes.init(h, nil)
	h.program, h.served = c.Turns.ProgramOf(r.Tool, r.Revision)
	return h
}

func (h *hold) lock()   { h.mutex <- struct{}{} }
func (h *hold) unlock() { <-h.mutex }

// id is the row's.
func (h *hold) id() store.ID { return h.lease.held().ID }

// look returns the row as it is known, which is not to be changed, and whether it is lost or is to be
// handed over.
func (h *hold) look() (r *row, lost, handing bool) {
	h.lock()
	defer h.unlock()
	return h.row, h.lost, h.handing.Load()
}

// stop ends what runs, for the reason why, unless it was stopped for another.
func (h *hold) stop(why error) {
	h.cut.CompareAndSwap(nil, &why)
	if t := h.turn.Load(); t != nil {
		t.stop(why)
	}
}

// stopped is why what runs was cut off; nil if it was not.
func (h *hold) stopped() error {
	if why := h.cut.Load(); why != nil {
		return *why
	}
	return nil
}

// newTurn returns the context of a turn, which ends when the turn is cut off.
func (h *hold) newTurn() *turnContext {
	ctx, stop := context.WithCancelCause(h.ctx)
	turn := &turnContext{ctx, stop}
	h.turn.Store(turn)
	if why := h.cut.Load(); why != nil {
		stop(*why) // it came just before
	}
	return turn
}

// lose notes that another process has the saga.
func (h *hold) lose() {
	h.lost = true
	h.stop(errLost)
}

// acting is called before the tool's code performs an effect: not without a lease, nor when the
// saga is handed over.
func (h *hold) acting(context.Context) error {
	h.lock()
	defer h.unlock()
	if h.calling != nil {
		if err := h.make(nothing); err != nil {
			return err
		}
	}
	if !h.lost && h.lease.expired(h.c.term()) {
		if err := h.reload(); err != nil {
			return err
		}
		if err := h.renew(); err != nil {
			return err
		}
	}
	switch {
	case h.lost:
		return errLost
	case h.handing.Load():
		return errStopping
	}
	return nil
}

// renew has the lease begin anew.
func (h *hold) renew() error {
	ctx, cancel := writing(h.ctx)
	defer cancel()
	t := h.c.term()
	lost, err := h.c.rows.renew(ctx, []store.Held{h.lease.held()}, t.takes)
	switch {
	case err != nil:
		return err
	case len(lost) > 0:
		h.lose()
		return errLost
	}
	h.lease.renewed(t)
	return nil
}

// reload finds out what the row is now.
func (h *hold) reload() error {
	ctx, cancel := writing(h.ctx)
	defer cancel()
	found, err := h.c.rows.load(ctx, h.row.ID)
	switch {
	case err != nil:
		return err
	case found == nil || found.Fence != h.row.Fence || found.Saga != h.row.Saga, found.written != h.row.written:
		// A client's request that had read the row before it was taken here may have acquired it since, with
		// the same fence: then the row was written.
		h.lose()
		return errLost
	}
	h.row = found
	if found.Cancelled {
		h.stop(errCancelled)
	}
	return nil
}

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

// commit writes the next version of the row, which change makes of a copy, with the events that change
// returns and the messages of the tool. If a client has written meanwhile, change is called
// again, for what that has left. Unless change puts the row to rest, it stays this process's for
// another lease. It fails with [errLost] if another process has the saga.
func (h *hold) commit(change func(r *row) []event) error {
	h.lock()
	defer h.unlock()
	return h.commitLocked(change)
}

func (h *hold) commitLocked(change func(r *row) []event) error {
	if h.calling != nil {
		return h.make(change)
	}
	var began time.Time
	pause := firstRetry
	changes := false // what is sent is this change
	for {
		if h.lost {
			return errLost
		}
		if h.sent == nil {
			if err := h.prepare(change); err != nil {
				return err
			}
			changes = true
		}
		err := h.send()
		if errors.Is(err, store.ErrConflict) {
			if err = h.reload(); err == nil {
				continue
			}
		}
		switch {
		case err == nil && !changes:
			continue // that was what had been sent before
		case err == nil, errors.Is(err, errLost), refused(err), unreadable(err), h.ctx.Err() != nil:
			return err
		case h.client:
			return err // a client is not kept waiting: it can ask again
		}
		if began.IsZero() {
			began = time.Now()
			h.c.Turns.Log.Error("the ledger cannot be used: a saga cannot be recorded", "tool", h.row.Tool, "error", err)
		}
		h.c.worker.fails()
		if time.Since(began) > writePatience || sleep(h.ctx, pause) != nil {
			return err
		}
		pause = min(2*pause, lastRetry)
	}
}

// sent is the next version of a row on its way to the store.
type sent struct {
	*sending
	told []event // of the notes
	term term
}

// prepare makes the next version of the row.
func (h *hold) prepare(change func(r *row) []event) error {
	next := h.row.clone()
	next.Running.Held = true
	next.Running.Tries = h.tries
	next.Running.Doubt = next.Running.Doubt || h.doubt
	next.Wake = dueAt(next.now()) // for others, once the lease is over
	told := h.notes.take(next)
	events := append(slices.Clip(told), change(next)...)
	h.show(next, events)
	t := h.c.term()
	if !next.Running.Held {
		t.takes = 0
	}
	next.Keep = keepUntil(next)
	sending, err := h.c.rows.prepare(next, t.takes, 0, events...)
	if err != nil {
		h.notes.back(told)
		return err
	}
	h.sent = &sent{sending, told, t}
	return nil
}

// send sends what is prepared. It stays so if it is not known whether it was made: then nothing else
// is written before it is.
func (h *hold) send() error {
	ctx, cancel := writing(h.ctx)
	defer cancel()
	w := h.sent
	if err := h.c.rows.send(ctx, w.sending); err != nil {
		if !w.unsure {
			h.notes.back(w.told)
			h.sent = nil
		}
		return err
	}
	h.c.worker.works()
	h.lease.renewed(w.term)
	h.row, h.sent = w.r, nil
	if h.rested = !h.row.Running.Held; h.rested && !h.row.Wake.IsZero() {
		h.c.worker.rests(h.row.Wake)
	}
	if !h.row.Running.Doubt {
		h.doubt = false
	}
	return nil
}

// show notes what a client can see of a change.
func (h *hold) show(next *row, events []event) {
	visible := next.Status != h.row.Status || next.Shown.Message != h.row.Shown.Message || next.Shown.Ending != h.row.Shown.Ending
	for i := range events {
		visible = visible || events[i].kind.visible()
	}
	if visible {
		next.Shown.Changes++
		next.Shown.Updated = next.now()
	}
}

// dueAt is a time that has come, also if the store's clock is not known to the millisecond.
func dueAt(now time.Time) time.Time { return now.Add(-100 * time.Millisecond) }

// nothing is a change that changes nothing.
func nothing(*row) []event { return []event{{kind: kindTurn}} }

// rest puts a row to rest in a status until it is to be looked at. It is to be called within a change.
func (h *hold) rest(r *row, status store.Status, wake time.Time) {
	r.Status, r.Wake = status, wake
	r.Running.Held, r.Running.Tries = false, 0
}

// further notes within a change that the saga has come further.
func (h *hold) further(r *row) {
	r.Status = store.Working
	r.Running = running{Held: true, Tries: 1}
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

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// clip bounds what is kept of an error.
func clip(text string) string {
	const most = 1000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// kindOf is the kind of the program that is driven.
func (h *hold) kindOf() engine.Kind {
	if h.program == nil {
		return engine.KindTool
	}
	return h.program.Kind
}

// taskTurn is the next turn, with what it asks of the row.
func (h *hold) taskTurn(r *row, now time.Time, why error) (t turns.TaskTurn, err error) {
	t, err = r.turn(h.program, now)
	t.Hooked, t.Notifier, t.Acting, t.Checkpoint = h.hooked, &h.notes, h.acting, h.checkpoint
	t.Undoing, t.Broken = h.undoing(why), h.undoing(errChanged)
	if r.Client != nil {
		t.Checkpoint = nil // as when its client had it taken: what was lost may have come further than one effect
	}
	return t, err
}
