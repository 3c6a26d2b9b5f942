package durable

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
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
	// defaultKeep is how long a call's result is kept unless Start.Keep says so: for readers on
	// other replicas.
	defaultKeep = time.Minute
	// callRetry is how long after the store has failed a call that has done nothing yet tries
	// again to have a row.
	callRetry = time.Second
)

// calling is a call that has no row yet. It is guarded by the lock of its hold.
type calling struct {
	start  *tasks.Start
	turn   *turns.TaskTurn
	caller context.Context // whose end ends the call
	saved  *engine.Position

	ready chan struct{} // closed when it has a row, or never will have
	once  sync.Once
	made  *row       // the row, as it was made
	known *row       // the same call was made before
	end   *turns.End // how it has ended without a row
	err   error
	over  bool // it never will have a row

	forget func() bool // ends the wait for the end of what is driven here; nil without a row
}

// errNoOutcome is how a call ends that breaks this package.
var errNoOutcome = errors.New("the call has ended without an outcome")

// call begins a call, and returns when it has ended or has a row.
func (c *Core) call(ctx context.Context, s *tasks.Start) (*tasks.Task, error) {
	q := &s.Request
	turn := &turns.TaskTurn{Caller: q.Caller(), Program: q.Program, Saga: c.Turns.NewID(), Arguments: orEmpty(q.Arguments), Client: q.Client, Answers: q.Answers, Trace: q.Trace}
	if q.IdempotencyKey != "" && s.ID == "" && turn.Program.Remembered() { // it may have acted already
		found, err := c.identify(ctx, s, turn, &row{state: state{Principal: q.Principal}})
		if err != nil || found != nil {
			return c.viewed(found, err)
		}
	}
	one := &calling{start: s, turn: turn, caller: ctx, ready: make(chan struct{})}
	h := &hold{c: c, ctx: context.WithoutCancel(ctx), mutex: make(chan struct{}, 1), program: turn.Program, served: true, calling: one, tries: 1, began: time.Now()}
	h.notes.init(h, q.Notifier)
	go h.runCall(one)
	select {
	case <-one.ready:
	case <-ctx.Done():
		h.lock()
		if h.calling != nil { // else the client comes back
			h.stop(context.Cause(ctx))
		}
		h.unlock()
		<-one.ready
	}
	switch {
	case one.made != nil:
		return c.view(one.made)
	case one.known != nil:
		return c.view(one.known)
	case one.err != nil:
		return nil, c.report(ctx, q.Method, one.err)
	}
	return &tasks.Task{Program: turn.Program, Saga: turn.Saga, End: one.end}, nil
}

// runCall takes the first turn of a call, and continues as others do if there is a row then.
func (h *hold) runCall(one *calling) {
	defer h.notes.stop()
	defer func() {
		if h.calling == nil {
			h.c.worker.release(h)
		}
		if one.forget != nil {
			one.forget()
		}
	}()
	var end turns.End
	err := engine.Protect(func() (err error) {
		turn := *one.turn
		turn.Now = h.c.clock.now()
		turn.Answers = nil // what is sent ahead is an answer when it was asked for
		turn.Notifier, turn.Acting, turn.Checkpoint = &h.notes, h.acting, h.checkpoint
		turn.Undoing, turn.Broken = h.undoing(nil), h.undoing(errChanged)
		ctx := h.newTurn()
		late := time.AfterFunc(one.start.Delay, func() { h.late(ctx) })
		end, err = h.c.Turns.TakeTask(ctx, turn)
		late.Stop()
		ctx.stop(nil)
		if h.endsWithoutRow(one, &end, err) {
			return nil
		}
		again, err := h.took(h.row, &end, err, one.turn.Answers, one.turn.Client)
		if err != nil || !again {
			return err
		}
		return h.drive()
	})
	h.lock()
	defer h.unlock()
	if h.calling != nil && !one.over {
		one.over = true
		// Its messages cannot be written, but the end needs no row.
		if one.err = cmp.Or(err, errNoOutcome); end.Result != nil || end.Messages != nil || end.Contents != nil {
			one.err, one.end = nil, &end
		}
	}
	one.settle()
	if err != nil && !one.over && !errors.Is(err, errLost) && h.ctx.Err() == nil { // else the caller has it
		h.c.Turns.Log.Error("a saga is left for another try", "tool", h.program.Name, "error", err)
	}
}

func (one *calling) settle() { one.once.Do(func() { close(one.ready) }) }

// endsWithoutRow ends a call that has no row and needs none.
func (h *hold) endsWithoutRow(one *calling, end *turns.End, err error) bool {
	h.lock()
	defer h.unlock()
	switch {
	case h.calling == nil, one.over:
		return h.calling != nil
	case err == nil && (end.Position != nil || !h.notes.empty()):
		return false // there is something for others to know
	case err != nil:
		one.err = err
	default:
		one.end = end
	}
	one.over = true
	return true
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

// postpone keeps how far a call has come that has no row, and has done nothing that needs one. It reports
// whether there is none.
func (h *hold) postpone(pos *engine.Position) bool {
	h.lock()
	defer h.unlock()
	if h.calling == nil || pos.HasEffects() {
		return false
	}
	kept := *pos
	h.calling.saved = &kept
	return true
}

// make makes the row of a call, as change leaves it. If that can never be, the call is over. The hold is
// locked.
func (h *hold) make(change func(r *row) []event) error {
	one := h.calling
	switch {
	case one.over && one.err != nil:
		return one.err
	case one.over:
		return errLost
	case one.caller.Err() != nil:
		return context.Cause(one.caller)
	}
	err := h.insert(one, change)
	switch {
	case err == nil:
		one.settle()
		return nil
	case errors.Is(err, errLost): // others go on with it
	case errors.Is(err, ErrUnavailable), errors.Is(err, tasks.ErrTooMany):
		return err
	case errors.Is(err, store.ErrTooLarge):
		one.over, one.err, err = true, &turns.Error{Err: errState}, errLost
	case one.known == nil:
		one.over, one.err = true, err
	default:
		one.over = true
	}
	h.lost = true
	one.settle()
	h.stop(err)
	return err
}

// insert is one attempt to make the row of a call.
func (h *hold) insert(one *calling, change func(r *row) []event) error {
	ctx, cancel := writing(h.ctx)
	defer cancel()
	c := h.c
	r, err := c.newRow(one.start, one.turn)
	if err != nil {
		return err
	}
	if one.known, err = c.identify(ctx, one.start, one.turn, r); err != nil || one.known != nil {
		return cmp.Or(err, tasks.ErrExists)
	}
	if one.saved != nil {
		if r.Stand.Position, err = encodePosition(one.saved, false); err != nil {
			return err
		}
		r.Stand.Questions, r.Stand.Answers = nil, nil
	}
	c.worker.awaitBegin(ctx)
	live, here := c.worker.graces()
	r.Running, r.Wake = running{Held: true, Tries: 1}, dueAt(r.Now)
	h.row = r
	h.notes.record()
	told := h.notes.take(r)
	events := slices.Concat([]event{{kind: kindBegun}}, told, change(r))
	t := c.term()
	if !here {
		h.rest(r, r.Status, later(r.Wake, dueAt(r.Now)))
		if r.Status == store.Working {
			r.Running.Doubt = false
		}
	}
	if !r.Running.Held {
		t.takes = 0
	}
	r.Keep = keepUntil(r)
	if err := c.rows.write(ctx, r, t.takes, shareOf(one.start.Account, c.MaxCalls), events...); err != nil {
		h.row = nil
		h.notes.back(told)
		if errors.Is(err, store.ErrConflict) {
			if r.Digest != nil {
				if one.known, err = c.same(ctx, r); err != nil {
					return err
				}
			}
			return tasks.ErrExists
		}
		return full(err)
	}
	c.clock.hear(r.Now)
	h.lease.acquire(r, t)
	h.row, h.calling = r, nil
	one.made = r
	if !here || !c.worker.enter(h) {
		h.lost = r.Running.Held || !here
		one.settle()
		return errLost
	}
	h.ctx = withValues{live, h.ctx}
	one.forget = context.AfterFunc(live, func() { h.stop(errLost) })
	return nil
}

// withValues is a context with the values of another one besides: what runs on when its caller has
// gone still knows who that was.
type withValues struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c withValues) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
