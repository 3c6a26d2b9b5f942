package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// A call is a saga whose client waits for it. It begins without a row, and gets one when it asks, before
// it performs an effect, and when it takes longer than its client says. Until then nothing that it does has
// an effect, so it may be lost as if it had not come.

const (
	// defaultKeep is how long a call's result is kept unless Start.Keep says so: for readers on other replicas.
	defaultKeep = time.Minute
	// callRetry is how long after the store has failed a call that has done nothing yet tries again to have a row.
	callRetry = time.Second
)

// calling is a call that has no row yet. It is guarded by the lock of its hold.
type calling struct {
	start  *tasks.Start
	turn   *turns.TaskTurn
	caller context.Context  // whose end ends the call
	saved  *engine.Position // how far its first turn has come by its last checkpoint, for the row to begin with
	over   error            // why it never will have a row; nil as long as it may

	settled chan outcome       // has what the caller learns, once
	leave   context.CancelFunc // ends the context of the hold
	forget  func() bool        // ends the wait for the end of what is driven here; nil without a row
}

// outcome is what comes of a call: a task, if it has a row, or the same call before has one, an end, or an error.
type outcome struct {
	task *tasks.Task
	err  error
}

// settle tells the caller what has come of the call, unless it knows.
func (one *calling) settle(t *tasks.Task, err error) {
	select {
	case one.settled <- outcome{t, err}:
	default:
	}
}

// errNoOutcome is how a call ends that breaks this package, and errNoRow how its turn does that ended without
// a row, or has another one.
var (
	errNoOutcome = errors.New("the call has ended without an outcome")
	errNoRow     = fmt.Errorf("%w: the call has ended", errLost)
)

// call begins a call with a turn, and returns when it has ended or has a row.
func (c *Core) call(ctx context.Context, s *tasks.Start, turn *turns.TaskTurn) (*tasks.Task, error) {
	q := &s.Request
	if q.IdempotencyKey != "" && s.ID == "" && turn.Program.Remembered() { // it may have acted already
		if found, err := c.identify(ctx, s, turn, new(row)); found != nil || err != nil {
			return c.viewed(found, err)
		}
	}
	live, leave := context.WithCancel(context.WithoutCancel(ctx))
	one := &calling{start: s, turn: turn, caller: ctx, settled: make(chan outcome, 1), leave: leave}
	r := &row{Record: store.Record{Tool: turn.Program.Target, Revision: turn.Program.Revision, Mode: store.ModeCall}}
	r.Begun.Arguments = turn.Arguments
	h := c.newHold(live, r, 1)
	h.calling, h.program, h.served = one, turn.Program, true
	h.notes.init(h, q.Notifier)
	go h.runCall(one)
	defer context.AfterFunc(ctx, func() {
		h.lock()
		defer h.unlock()
		if h.calling != nil { // else the client comes back
			h.stop(context.Cause(ctx))
		}
	})()
	o := <-one.settled
	return o.task, c.report(ctx, q.Method, o.err)
}

// runCall drives a call: it takes the first turn and, unless the call ends with that and needs no row, drives on what
// is then a saga like others.
func (h *hold) runCall(one *calling) {
	defer one.leave()
	defer h.notes.stop()
	var end turns.End
	err := engine.Protect(func() (err error) {
		end, err = h.firstTurn(one)
		if h.endsWithoutRow(one, &end, err) {
			return err
		}
		r, _, _ := h.look()
		again, err := h.took(r, &end, err, one.turn.Answers, one.turn.Client)
		if err != nil || !again {
			return err
		}
		return h.drive()
	})
	h.callEnds(one, &end, err)
}

// firstTurn takes the first turn of a call. If that takes long, the call has a row meanwhile.
func (h *hold) firstTurn(one *calling) (turns.End, error) {
	one.turn.Now = h.c.clock.now()
	turn := *one.turn
	if err := h.c.Turns.Mark(h.ctx, h.program, &turn.Call); err != nil {
		return turns.End{}, err
	}
	turn.Permitted, turn.Answers = true, nil // what is sent ahead is an answer when it was asked for
	turn.Notifier, turn.Acting, turn.Final, turn.Checkpoint = &h.notes, h.acting, h.final, h.checkpoint
	turn.Undoing, turn.Broken = h.undoing(nil), h.undoing(errChanged)
	ctx, stop := h.newTurn()
	defer stop(nil)
	defer time.AfterFunc(one.start.Delay, func() { h.late(ctx) }).Stop()
	return h.c.Turns.TakeTask(ctx, turn)
}

// endsWithoutRow reports whether a call ends with its first turn, without a row: there cannot be one, or nothing is
// left for one to say. From then on it gets none.
func (h *hold) endsWithoutRow(one *calling, end *turns.End, err error) bool {
	h.lock()
	defer h.unlock()
	hasRow := h.calling == nil
	needsNone := err != nil || end.Position == nil && h.notes.empty()
	if hasRow || one.over == nil && !needsNone {
		return false
	}
	one.over = errNoRow
	return true
}

// callEnds is called when nothing of a call runs here any more. A caller that knows of no row learns how the call has
// ended.
func (h *hold) callEnds(one *calling, end *turns.End, err error) {
	h.lock()
	defer h.unlock()
	switch {
	case h.calling == nil:
		h.c.worker.release(h)
		h.logLeft(h.program.Name, err)
	case end.Result != nil || end.Messages != nil || end.Contents != nil:
		// If there are messages that could not be written, the end is worth more.
		one.settle(&tasks.Task{Program: one.turn.Program, Saga: one.turn.Saga, End: end}, nil)
	default:
		one.settle(nil, cmp.Or(err, errNoOutcome))
	}
	one.over = errNoRow
	if one.forget != nil {
		one.forget()
	}
}

// late has the call have a row if its turn takes long.
func (h *hold) late(turn context.Context) {
	for turn.Err() == nil {
		h.lock()
		var err error
		if h.calling != nil {
			err = h.make(nothing)
		}
		h.unlock()
		if err == nil {
			h.watch(turn)
			return
		}
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, tasks.ErrTooMany) {
			return
		}
		_ = sleep(turn, callRetry) // as long as it has done nothing it needs no store
	}
}

// make makes the row of a call, as change leaves it. If there never will be one that is driven here, it fails with
// [errNoRow], and the turn is cut off. The hold is locked.
func (h *hold) make(change func(r *row) []event) error {
	one := h.calling
	if err := cmp.Or(one.over, context.Cause(one.caller)); err != nil {
		return err
	}
	ctx, cancel := writing(h.ctx)
	defer cancel()
	err := h.insert(ctx, one, change)
	switch {
	case err == nil, errors.Is(err, ErrUnavailable), errors.Is(err, tasks.ErrTooMany): // in which case it may be later
		return err
	case errors.Is(err, store.ErrTooLarge):
		err = &turns.Error{Err: errState}
	}
	one.settle(nil, err) // it reports that, so the turn need not
	h.lost, one.over = true, errNoRow
	h.stop(errNoRow)
	return errNoRow
}

// insert is one attempt to make the row of a call. It fails with [errNoRow] if this process is not to drive the row: the same
// call has made it before, or others continue with it. The client's request has been given the row then.
func (h *hold) insert(ctx context.Context, one *calling, change func(r *row) []event) error {
	if h.sent == nil { // else an earlier attempt may have made the row, and the same is sent again
		r := h.c.newRow(one.start, one.turn)
		if known, err := h.c.identify(ctx, one.start, one.turn, r); known != nil || err != nil {
			return h.madeBefore(known, err)
		}
		if one.saved != nil {
			r.Stand.Position, r.Stand.Answers = r.encode(one.saved), nil
		}
		h.row = r
	}
	h.c.worker.awaitBegin(ctx)
	live, here := h.c.worker.serves(true)
	h.passes, h.most = !here, shareOf(one.start.Account != "", h.c.MaxSagas)
	h.notes.record()
	err := h.write(func(r *row) []event {
		if r.Head > 0 { // an earlier attempt has made it
			return change(r)
		}
		events := append([]event{{kind: kindBegun}}, change(r)...)
		if !here && r.Status == store.Working {
			r.Running.Doubt = false // whatever has cut it off: without a row it has performed no effect
		}
		return events
	})
	switch {
	case !h.acquired && errors.Is(err, store.ErrConflict):
		known, err := h.c.instead(ctx, h.row)
		return h.madeBefore(known, err)
	case !h.acquired:
		return full(err)
	}
	h.calling = nil
	one.settle(h.c.view(h.row))
	if !here || h.lost {
		return errNoRow
	}
	one.forget = context.AfterFunc(live, func() {
		h.stop(errLost)
		one.leave()
	})
	return err // the row was made, but a change after that may have failed
}

// madeBefore has the caller have the row that the same call has made before.
func (h *hold) madeBefore(known *row, err error) error {
	if err != nil {
		return err
	}
	h.calling.settle(h.c.view(known))
	return errNoRow
}
