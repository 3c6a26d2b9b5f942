package tasks

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// A call is a task whose client waits for it. It begins without a record, and is an ordinary task
// from the moment when it has one; only that it needs no worker's place where its client is.

const (
	// callKeep is how long a call's result is kept unless Start.Keep says so: for readers on
	// other replicas.
	callKeep = time.Minute
	// callRetry is how long after the ledger has failed a call that has done nothing yet tries
	// again to have its record made.
	callRetry = time.Second
	// callLook is how long it may take to find out whether a record was made after all.
	callLook = 2 * time.Second
)

// first is what a call is as long as it has no record.
type first struct {
	start  *Start
	turn   *turns.TaskTurn
	caller context.Context // whose end ends the call
	ready  chan struct{}   // closed when there is a record, or the call is over without

	// What follows is guarded by the run's lock, and not changed any more when ready is closed.
	made  bool                // there is a record
	over  bool                // there will be none
	err   error               // why there is none, or how the call has ended
	end   *turns.End          // how it has ended
	known *records.TaskEntry  // it was made before by the same call
	saved func(*records.Task) // how far it has come
	once  sync.Once
}

// errNoOutcome is how a call ends that breaks this package.
var errNoOutcome = errors.New("the call has ended without an outcome")

// unmade reports whether the run has no record. The run is locked.
func (r *run) unmade() bool { return r.first != nil && !r.first.made }

// settle lets the caller go on.
func (f *first) settle() { f.once.Do(func() { close(f.ready) }) }

// call begins a call, and returns when it has ended or has a record.
func (m *Manager) call(ctx context.Context, s *Start) (*Task, error) {
	q := &s.Request
	turn := &turns.TaskTurn{Method: q.Method, Program: q.Program, Saga: m.Turns.NewID(), Arguments: orEmpty(q.Arguments), Client: q.Client, Answers: q.Answers, Trace: q.Trace}
	if q.IdempotencyKey != "" && s.ID == "" && turn.Program.Remembered() { // it may have acted already
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
	f := &first{start: s, turn: turn, caller: ctx, ready: make(chan struct{})}
	r := &run{
		m: m, ctx: context.WithoutCancel(ctx), mutex: make(chan struct{}, 1), program: turn.Program, served: true, call: true,
		principal: q.Principal, epoch: 1, first: f, began: time.Now(),
	}
	r.notes.init(r, q.Notifier)
	go r.work(r.driveCall)
	select {
	case <-f.ready:
	case <-ctx.Done():
		r.lock()
		if !f.made { // else the client comes back
			r.cut(context.Cause(ctx))
		}
		r.unlock()
		<-f.ready
	}
	switch {
	case f.made:
		e, _ := r.shown.get()
		return m.view(e)
	case f.known != nil:
		return m.view(f.known)
	case f.err != nil:
		return nil, m.report(ctx, q.Method, f.err)
	}
	return &Task{Program: turn.Program, Saga: turn.Saga, End: f.end}, nil
}

// driveCall takes the first turn of a call, and goes on as others do if there is a record then.
func (r *run) driveCall() (err error) {
	f := r.first
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
	late := time.AfterFunc(f.start.Delay, func() { r.late(ctx) })
	end, err = r.m.Turns.TakeTask(ctx, turn)
	late.Stop()
	ctx.stop(nil)
	if r.endsUnmade(&end, err) {
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

// saves remembers how far a call has come that has no record: it has performed nothing, so that
// need not be written down.
func (r *run) saves(pos *engine.Position) bool {
	r.lock()
	defer r.unlock()
	if !r.unmade() {
		return false
	}
	at := encodePosition(pos, false) // the request has the arguments
	r.first.saved = func(t *records.Task) { t.Position, t.Answers = at, nil }
	return true
}

// endsUnmade ends a call that has no record and needs none.
func (r *run) endsUnmade(end *turns.End, err error) bool {
	f := r.first
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

// late has the record made of a call that takes long.
func (r *run) late(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.make()
		if err == nil {
			r.watch(ctx, r.task())
			return
		}
		if !errors.Is(err, turns.ErrLedger) && !errors.Is(err, ErrTooMany) {
			return
		}
		// As long as it has done nothing it needs no ledger.
		_ = sleep(ctx, callRetry)
	}
}

// make makes the record, unless there is one.
func (r *run) make() error {
	r.lock()
	defer r.unlock()
	if r.first == nil || r.first.made {
		return nil
	}
	return r.makeLocked(func(*records.Task) []Event { return nil })
}

// makeLocked makes the record as change leaves it. If there can never be one, the call is over.
func (r *run) makeLocked(change func(t *records.Task) []Event) error {
	f := r.first
	switch {
	case f.over && f.err != nil:
		return f.err
	case f.over:
		return errLost
	case f.caller.Err() != nil:
		return context.Cause(f.caller)
	}
	err := r.tryMake(change)
	switch {
	case err == nil:
		return nil
	case f.made, errors.Is(err, records.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrTooMany):
		return err
	}
	f.over = true
	if f.known == nil {
		f.err = err
	}
	f.settle()
	r.cut(err)
	return err
}

func (r *run) tryMake(change func(t *records.Task) []Event) error {
	f, m := r.first, r.m
	ctx, cancel := context.WithTimeout(r.ctx, writeTime)
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
		switch err := m.book.CallRoom(ctx, r.principal); {
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
	live, held, free := m.crew.enter(r)
	switch {
	case !free:
		return r.existing(ctx, &r.e.Task, records.ErrConflict)
	case !held:
		r.epoch = 0 // whoever takes it is the first
	}
	err := r.attempt(change, false)
	if err != nil {
		err = r.foundMade(err, change)
	}
	if err != nil && !f.made {
		m.crew.remove(r)
		r.e.Marks++ // another try is not taken for this one
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
		r.first.known = found
	}
	return ErrExists
}

// foundMade looks whether a record was made although that has failed with err. Then it does what is
// left.
func (r *run) foundMade(why error, change func(t *records.Task) []Event) error {
	ctx, cancel := context.WithTimeout(r.ctx, callLook)
	defer cancel()
	found, err := r.m.book.TaskAt(ctx, r.key)
	switch {
	case err == nil && found != nil && found.Saga == r.e.Saga:
		r.first.made = true
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
