package durable

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// Why a turn is cut off. What its client chooses is a [context.Canceled], whatever the tool's code makes of it.
var (
	errCancelled = fmt.Errorf("the saga was cancelled: %w", engine.ErrUnwanted)
	errStopping  = fmt.Errorf("%w: the server is stopping", turns.ErrHandedOver)
	errOver      = fmt.Errorf("the saga's time is over: %w", context.Canceled)
	// errLost: another process has the saga now, or it is gone.
	errLost = fmt.Errorf("%w: the lease of the saga is lost", turns.ErrHandedOver)
)

// hold is a saga that this process drives, or is about to. Its first write acquires the row, or makes it, unless
// a worker has taken it. What clients and operators write meanwhile is found when the row is written: the next
// write meets a conflict, loads the row, and folds it in.
type hold struct {
	c       *Core
	ctx     context.Context // ends when everything is left to others
	program *engine.Program // nil if it is not served
	served  bool            // program can drive it, rather than only undo
	share   *share          // of the worker's slots; nil if it takes none
	began   time.Time

	// end ends the context of the turn that runs. cut is why it was cut off, if it was.
	end atomic.Pointer[context.CancelCauseFunc]
	cut atomic.Pointer[error]

	mutex chan struct{} // held while the row is written
	row   *row
	// acquired: the row is this process's, or was. Before that, most is how many rows its account may have, if it is
	// new, and passes says that the first write puts the row to rest, for other processes.
	acquired, passes bool
	most             int
	// sent is what was written last, as long as it is not known whether it was made.
	sent *sending
	// held names the lease once the row is acquired, and term is when that began.
	held store.Held
	term atomic.Pointer[term]
	// lost: the saga is another process's. rested: it was put to rest, and is not this process's any more.
	lost, rested bool
	// handing: it is to be handed over.
	handing atomic.Bool
	// fromRest: it was at rest before it was acquired.
	fromRest bool
	// doubt: before this process has come further, more may have been done than the row says. tries
	// is how many attempts there were, with this one.
	doubt bool
	tries int
	// revocable: its turn has ended well, which does not count if it was cancelled before.
	revocable bool
	// beganUndo: this process has begun to undo it, so it knows all that was undone.
	beganUndo bool
	// calling is set as long as a call has no row.
	calling *calling

	// client: a client's request drives it, whose turn is not handed over; hooked: its hook was called. hasty: a
	// write that fails is not repeated. why is why the saga is undone, undoEnd and undoErr what came of that.
	client, hooked, hasty bool
	why                   error
	undoEnd               *turns.End
	undoErr               error

	// heard are events that the saga takes; the next commit says so.
	heard []heard

	notes  notes
	pauses int // turns in a row that asked nothing
	own    int // turns in a row that asked only the server's model
}

// newHold returns a hold of a row that was taken so many times since it was last written, with this time.
func (c *Core) newHold(ctx context.Context, r *row, taken int) *hold {
	h := &hold{
		c: c, ctx: ctx, mutex: make(chan struct{}, 1), row: r,
		fromRest: !r.Running.Held && taken == 1, tries: r.Running.Tries + taken,
		doubt: r.Running.Doubt || r.Running.Held || taken > 1,
	}
	h.notes.init(h, nil)
	h.program, h.served = c.Turns.ProgramOf(r.Tool, r.Revision)
	return h
}

func (h *hold) lock()   { h.mutex <- struct{}{} }
func (h *hold) unlock() { <-h.mutex }

// look returns the row as it is known, which is not to be changed, and whether it is lost or is to be handed over.
func (h *hold) look() (r *row, lost, handing bool) {
	h.lock()
	defer h.unlock()
	return h.row, h.lost, h.handing.Load()
}

// doubts reports whether more may have been done than the row says.
func (h *hold) doubts() bool {
	h.lock()
	defer h.unlock()
	return h.doubt
}

// stop ends what runs, for the reason why, unless it was stopped for another.
func (h *hold) stop(why error) {
	h.cut.CompareAndSwap(nil, &why)
	if end := h.end.Load(); end != nil {
		(*end)(why)
	}
}

// stopped is why what runs was cut off; nil if it was not.
func (h *hold) stopped() error {
	if why := h.cut.Load(); why != nil {
		return *why
	}
	return nil
}

// newTurn returns the context of a turn, which ends when the turn is cut off, or end is called.
func (h *hold) newTurn() (ctx context.Context, end context.CancelCauseFunc) {
	ctx, end = context.WithCancelCause(h.ctx)
	h.end.Store(&end)
	if why := h.cut.Load(); why != nil {
		end(*why) // it came just before
	}
	return ctx, end
}

func (h *hold) lose() {
	h.lost = true
	h.stop(errLost)
}

// acting is called before the tool's code performs an effect: not without a lease, nor when the saga is handed over.
func (h *hold) acting(context.Context) error {
	h.lock()
	defer h.unlock()
	if h.calling != nil {
		if err := h.make(nothing); err != nil {
			return err
		}
	}
	if !h.lost && h.expired() {
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

// final is as acting, and called before the n-th effect from where the saga stands that is irreversible and has no Undo.
// The row says so, unless ctx was cancelled by then, as nothing is begun then: should this process die, an undo performs no
// more of them.
func (h *hold) final(ctx context.Context, n int) error {
	if err := h.acting(ctx); err != nil {
		return err
	}
	return h.commit(func(r *row) []event {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil
		}
		r.Running.Finals = max(r.Running.Finals, n+1)
		return []event{{kind: kindTurn, body: body{Text: "is about to do what is irreversible"}}}
	})
}

// begins is called before an effect is performed, with what was begun by then. If servers have gone down with the saga, the row
// says so: if the effect is what takes them down, none comes as far as to record it.
func (h *hold) begins(_ context.Context, pos *engine.Position) error {
	h.lock()
	r, tries := h.row, h.tries
	h.unlock()
	if tries == 1 {
		return nil
	}
	before, err := decodePosition(r.Stand.Begun, r.Saga)
	if err != nil {
		return err
	}
	begun := encodePosition(pos.Begun(before))
	if bytes.Equal(begun, r.Stand.Begun) {
		return nil
	}
	err = h.commit(func(r *row) []event {
		r.Stand.Begun = begun
		return []event{{kind: kindTurn, body: body{Text: "performs again what servers may have gone down with"}}}
	})
	if errors.Is(err, store.ErrTooLarge) {
		return nil
	}
	return err
}

func (h *hold) renew() error {
	ctx, cancel := writing(h.ctx)
	defer cancel()
	t := h.c.term()
	lost, err := h.c.rows.renew(ctx, []store.Held{h.held}, h.c.Lease)
	switch {
	case err != nil:
		return err
	case len(lost) > 0:
		h.lose()
		return errLost
	}
	h.renewed(t)
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

// sync finds out what others have written, if there is a row that is this process's.
func (h *hold) sync() error {
	h.lock()
	defer h.unlock()
	if h.calling != nil || h.rested || h.lost {
		return nil
	}
	return h.reload()
}

// taskTurn is the next turn, with what it asks of the row.
func (h *hold) taskTurn(r *row, now time.Time, why error) (t turns.TaskTurn, err error) {
	t = turns.TaskTurn{
		Call: engine.Call{
			Client: engine.UnpackFeatures(r.Begun.Client), Arguments: r.Begun.Arguments, Answers: slices.Clip(r.Stand.Answers),
			Events: happenedOf(r.Stand.Answers), Secret: r.Begun.Secret,
			Notifier: &h.notes, Acting: h.acting, Undoing: h.undoing(why), Begins: h.begins, Final: h.final, Finals: cmp.Or(r.Running.Finals, math.MaxInt) - 1,
		},
		Identity: turns.Identity{Program: h.program, Saga: r.Saga}, Trace: r.Begun.Trace,
		Caller: turns.Caller{Principal: r.Principal, Method: r.Begun.Method, Dialect: r.Begun.Dialect}, Who: r.caller(),
		Hooked: h.hooked, Broken: h.undoing(errChanged),
	}
	if r.Client == nil { // what a client's turn has lost may have come further than one effect
		t.Checkpoint = h.checkpoint
	}
	t.Position, err = decodePosition(r.Stand.Position, r.Saga)
	t.Now, t.Present = r.turnTime(now, t.Position), now
	if err == nil {
		err = h.c.Turns.Mark(h.ctx, h.program, &t.Call)
	}
	if err == nil && r.Client != nil && t.Position != nil && len(t.Events) == 0 {
		t.Events, err = h.c.Register(h.ctx, r.Principal, h.program, t.Position)
		h.hears(h.program, t.Position, t.Events)
	}
	if err == nil && r.Client != nil && r.Client.Turn != nil {
		t.Begun, err = decodePosition(r.Client.Turn.Did, r.Saga)
	}
	return t, err
}

// term is when a lease begins: before the store is asked for it.
type term struct {
	began time.Time // by the clock that only goes forward
	wall  time.Time // by the one that runs while a machine is suspended
}

func (c *Core) term() term { return term{time.Now(), c.Turns.Now()} }

// expired reports whether the lease may be over now, by either clock.
func (h *hold) expired() bool {
	now, t := h.c.term(), h.term.Load()
	return now.began.Sub(t.began) >= h.c.Lease || now.wall.Round(0).Sub(t.wall.Round(0)) >= h.c.Lease
}
