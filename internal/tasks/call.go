package tasks

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// A call is a task whose client waits for it. It begins without a record, and is an ordinary task
// from the moment when it has one; only that it needs no worker's place where its client is.

const (
	// defaultKeep is how long a call's result is kept unless Start.Keep says so: for readers on
	// other replicas.
	defaultKeep = time.Minute
	// callRetry is how long after the ledger has failed a call that has done nothing yet tries
	// again to have its record made.
	callRetry = time.Second
	// callLook is how long it may take to find out whether a record was made after all.
	callLook = 2 * time.Second
)

// call begins a call, and returns when it has ended or has a record.
func (m *Manager) call(ctx context.Context, s *Start) (*Task, error) {
	q := &s.Request
	turn := &turns.TaskTurn{Caller: q.Caller(), Program: q.Program, Saga: m.Turns.NewID(), Arguments: orEmpty(q.Arguments), Client: q.Client, Answers: q.Answers, Trace: q.Trace}
	if q.IdempotencyKey != "" && turn.Program.Remembered() { // it may have acted already
		var t records.Task
		found, err := m.identify(ctx, s, turn, &t)
		if err == nil && found == nil {
			found, err = m.findSame(ctx, q.Principal, &t)
		}
		switch {
		case err != nil:
			return nil, m.report(ctx, q.Method, err)
		case found != nil:
			return m.view(found)
		}
	}
	f := &unwritten{start: s, turn: turn, caller: ctx, delay: s.Delay, ready: make(chan struct{})}
	r := &run{
		m: m, ctx: context.WithoutCancel(ctx), mutex: make(chan struct{}, 1), program: turn.Program, served: true, call: true,
		principal: q.Principal, epoch: 1, unwritten: f, began: time.Now(),
	}
	r.notes.init(r, q.Notifier)
	go r.work(r.driveCall)
	r.await(ctx)
	switch {
	case f.made:
		return m.view(r.shown.newestEntry())
	case f.known != nil:
		return m.view(f.known)
	case f.err != nil:
		return nil, m.report(ctx, q.Method, f.err)
	}
	return &Task{Program: turn.Program, Saga: turn.Saga, End: f.end}, nil
}

// driveCall takes the first turn of a call, and goes on as others do if there is a record then.
func (r *run) driveCall() (err error) {
	f := r.unwritten
	var end turns.End
	defer func() { // also when it panics
		r.lock()
		defer r.unlock()
		if !f.made && !f.over {
			f.over = true
			// What it has told cannot be written down, but the end needs no ledger.
			if f.err = cmp.Or(err, errNoOutcome); end.Result != nil || end.Messages != nil || end.Contents != nil {
				f.err, f.end = nil, &end
			}
			err = nil // the caller has it
		}
		f.settle()
	}()
	turn := *f.turn
	turn.Now = r.m.now()
	turn.Answers = nil // what is sent ahead is an answer when it was asked for
	turn.Notifier, turn.Acting, turn.Checkpoint = &r.notes, r.acting, r.checkpoint
	ctx := r.newTurn()
	late := time.AfterFunc(f.delay, func() { r.late(ctx) })
	end, err = r.m.Turns.TakeTask(ctx, turn)
	late.Stop()
	ctx.stop(nil)
	if r.endsUnwritten(&end, err) {
		return nil
	}
	if f.over { // it was refused; the record is another call's, or nobody's
		return errLost
	}
	again, err := r.took(nil, &end, err, f.turn.Answers, f.turn.Client)
	if err != nil || !again {
		return err
	}
	return r.drive()
}

// endsUnwritten ends a call that has no record and needs none.
func (r *run) endsUnwritten(end *turns.End, err error) bool {
	f := r.unwritten
	r.lock()
	defer r.unlock()
	switch {
	case f.made, f.over:
		return false
	case err == nil && (end.Position != nil || !r.notes.empty()):
		return false // there is something for others to know
	case err != nil:
		f.err = err
	default:
		f.end = end
	}
	f.over = true
	return true
}

// tryMake makes the record of a new call, as change leaves it.
func (r *run) tryMake(change func(t *records.Task) []Event) error {
	f, m := r.unwritten, r.m
	ctx, cancel := context.WithTimeoutCause(r.ctx, writeTime, records.ErrSlow)
	defer cancel()
	m.sync(ctx)
	if r.e == nil {
		t := m.newTask(f.start, f.turn)
		known, err := m.identify(ctx, f.start, f.turn, &t)
		if err != nil {
			return err
		}
		if f.known = known; known != nil {
			return ErrExists
		}
		switch err := m.book.CallRoom(ctx, r.principal, f.start.Account); {
		case errors.Is(err, records.ErrFull):
			return ErrTooMany
		case err != nil:
			return err
		}
		e, err := m.book.NewTask(ctx, t, f.start.ID != "")
		if err != nil {
			return r.existing(ctx, &t, err)
		}
		r.e, r.key, r.tool = e, e.Key(), e.Target.Name
	}
	if f.saved != nil {
		f.saved(&r.e.Task)
	}
	m.crew.awaitBegin(ctx)
	live, held, free := m.crew.enter(r)
	switch {
	case !free:
		return r.existing(ctx, &r.e.Task, records.ErrConflict)
	case held:
		f.take, r.epoch = true, 1
	default:
		f.take, r.epoch = false, 0 // whoever takes it is the first
	}
	err := r.once(change)
	if err != nil {
		err = r.foundMade(err, change)
	}
	if err != nil && !f.made {
		m.crew.remove(r)
		return r.existing(ctx, &r.e.Task, err)
	}
	f.made = true
	r.notes.record()
	if held {
		r.ctx = withValues{live, r.ctx}
		r.left = context.AfterFunc(live, func() { r.cut(errLost) })
	} else if err == nil {
		r.lose() // whoever has a place goes on
	}
	f.settle()
	return err
}

// existing is what a conflict with another record means.
func (r *run) existing(ctx context.Context, t *records.Task, err error) error {
	if !errors.Is(err, records.ErrConflict) {
		return err
	}
	if t.Digest != nil {
		found, err := r.m.findSame(ctx, r.principal, t)
		if err != nil {
			return err
		}
		r.unwritten.known = found
	}
	return ErrExists
}

// foundMade looks whether a record was made although that has failed with err. Then it does what is
// left.
func (r *run) foundMade(why error, change func(t *records.Task) []Event) error {
	ctx, cancel := context.WithTimeoutCause(r.ctx, callLook, records.ErrSlow)
	defer cancel()
	found, err := r.m.book.TaskAt(ctx, r.key)
	switch {
	case err == nil && found != nil && found.Saga == r.e.Saga:
		r.unwritten.made = true
		return r.goOnWriting(change, true)
	}
	return why
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
