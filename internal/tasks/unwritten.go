package tasks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// The turn of a call whose client waits here is taken before the ledger knows of it: a new call
// has no record yet (call.go), and the last answer of one that has asked is not written down yet
// (answer.go). So is the first turn of a task, for a moment (ahead.go). Until it is, nothing that
// the turn does has an effect, and whoever has sent the call or the answer waits; so it may be lost,
// or thrown away, as if it had not come. Mostly the turn asks or ends soon, and one write has it all.

// unwritten is what a run has that the ledger does not.
type unwritten struct {
	delay time.Duration // after which it is written down at the latest
	ready chan struct{} // closed when it is written down, or never will be

	// start and turn are of a new call. caller is who has begun that or a task, whose end ends it as
	// long as nothing is written down. An answer has none.
	start  *Start
	turn   *turns.TaskTurn
	caller context.Context
	ahead  bool // it is of a task that has no record yet

	// What follows is guarded by the run's lock, and not changed any more when ready is closed.
	made  bool                // it is written down
	over  bool                // it never will be
	take  bool                // the write has the task be this run's
	err   error               // why it never will be, or how a new call has ended
	end   *turns.End          // how a new call has ended
	known *records.TaskEntry  // the new call was made before
	saved func(*records.Task) // how far it has come
	once  sync.Once

	late  *time.Timer        // writes a task down that is ahead
	first *records.TaskEntry // what was written down of that
}

// errNoOutcome is how a call ends that breaks this package.
var errNoOutcome = errors.New("the call has ended without an outcome")

// isUnwritten reports whether the ledger does not know yet what the run goes on from. The run is
// locked.
func (r *run) isUnwritten() bool { return r.unwritten != nil && !r.unwritten.made }

// settle lets whoever waits go on.
func (u *unwritten) settle() { u.once.Do(func() { close(u.ready) }) }

// settled reports whether that was done: from then on what was found is read without the lock.
func (u *unwritten) settled() bool {
	select {
	case <-u.ready:
		return true
	default:
		return false
	}
}

// await waits until it is written down, or never will be, which is so when ctx ends before.
func (r *run) await(ctx context.Context) {
	u := r.unwritten
	select {
	case <-u.ready:
	case <-ctx.Done():
		r.lock()
		if !u.made { // else the client comes back
			r.cut(context.Cause(ctx))
		}
		r.unlock()
		<-u.ready
	}
}

// saves remembers how far a turn has come of which nothing is written down: it has performed
// nothing, so that need not be either.
func (r *run) saves(pos *engine.Position) bool {
	r.lock()
	defer r.unlock()
	if !r.isUnwritten() || r.unwritten.ahead {
		return false
	}
	if r.unwritten.start == nil && pos.Next() == "" {
		return false // what earlier turns did is being undone
	}
	at := encodePosition(pos, false) // the request has the arguments
	r.unwritten.saved = func(t *records.Task) { t.Position, t.Questions, t.Answers = at, nil, nil }
	return true
}

// driveUnwritten is drive for a call that was given its last answer, and for a task that is begun ahead.
func (r *run) driveUnwritten() (err error) {
	defer func() { // also when it panics
		u := r.unwritten
		r.lock()
		defer r.unlock()
		if !u.made {
			if u.err == nil && !u.settled() {
				u.err = err // that its caller has left, say
			}
			u.over, r.lost, err = true, true, nil // who waits sees to it
		}
		u.settle()
	}()
	return r.drive()
}

// late has it written down if the turn takes long.
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

// make writes it down, unless it is.
func (r *run) make() error {
	r.lock()
	defer r.unlock()
	if !r.isUnwritten() {
		return nil
	}
	return r.makeLocked(unchanged)
}

// makeLocked writes it down as change leaves it. If that can never be, it is over.
func (r *run) makeLocked(change func(t *records.Task) []Event) error {
	u := r.unwritten
	switch {
	case u.over && u.err != nil:
		return u.err
	case u.over:
		return errLost
	case u.caller != nil && u.caller.Err() != nil:
		return context.Cause(u.caller)
	}
	try := r.tryMake
	switch {
	case u.ahead:
		try = r.tryPut
	case u.start == nil:
		try = r.tryTake
	}
	err := try(change)
	switch {
	case err == nil, u.made:
		return err
	case u.start == nil: // the answer is given in another way, and the task is not begun
	case errors.Is(err, records.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrTooMany):
		return err
	}
	u.over, r.lost = true, true // nor is anything else written: its epoch may be another's
	if errors.Is(err, ledger.ErrTooLarge) {
		u.err, err = &turns.Error{Err: errState}, errLost
	} else if u.known == nil {
		u.err = err
	}
	u.settle()
	r.cut(err)
	return err
}
