package tasks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// errLost: the task is somebody else's now, or nobody's.
var errLost = errors.New("the lease of the task is lost")

// Times of writing.
const (
	// writeTime bounds one attempt to write, and shared is how much longer it may take, as those that
	// begin at about the same time have one context: timers for each cost much.
	writeTime = 10 * time.Second
	shared    = time.Second
	// writePatience is how long a worker tries to write what it has done while the store
	// cannot be used: nobody else can take the task then either.
	writePatience = 5 * time.Minute
	firstRetry    = 50 * time.Millisecond
	lastRetry     = 5 * time.Second
)

// write has change make the next state of the record, and writes that, with the events that
// change returns and those that wait. If a client has written meanwhile, change is called again, for what
// that has left. Unless change puts the task to rest, it stays this worker's for another
// lease. It fails with [errLost] if somebody else has taken the task; nothing was
// written then, or that one has found it.
func (r *run) write(change func(t *records.Task) []Event) error {
	r.lock()
	defer r.unlock()
	return r.writeLocked(change)
}

func (r *run) writeLocked(change func(t *records.Task) []Event) error {
	if r.isUnwritten() && !r.unwritten.ahead {
		return r.makeLocked(change)
	}
	if r.isUnwritten() { // who begins a task is to find it begun, and nothing more
		if err := r.makeLocked(unchanged); err != nil {
			return err
		}
	}
	r.nextMark()
	return r.goOnWriting(change, r.m.passed(r.until)) // somebody may have it: look before writing
}

// nextMark begins something else to be written. Its mark is another one than that of all that was
// tried before: each of that may be found in the record later.
func (r *run) nextMark() { r.mark = max(r.mark, r.e.Marks) + 1 }

// once tries once to write something.
func (r *run) once(change func(t *records.Task) []Event) error {
	r.nextMark()
	return r.attempt(change, false)
}

// goOnWriting tries to write until it can, or it makes no sense any more.
func (r *run) goOnWriting(change func(t *records.Task) []Event, stale bool) error {
	var began time.Time
	pause := firstRetry
	for {
		err := r.attempt(change, stale)
		switch {
		case err == nil, errors.Is(err, errLost), errors.Is(err, ledger.ErrTooLarge):
			return err
		case errors.Is(err, records.ErrConflict):
			stale = true
			continue
		case !errors.Is(err, records.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded), errors.Is(err, ledger.ErrClosed):
			return err
		}
		if r.ctx.Err() != nil {
			return err // others will find it once the lease is over
		}
		stale = true // it may have been made
		if began.IsZero() {
			began = time.Now()
			r.m.Turns.Log.Error("the ledger cannot be used: a task cannot be recorded", "tool", r.tool, "error", err)
		} else {
			r.m.writing.failed(2 * r.m.lease())
		}
		if time.Since(began) > writePatience || sleep(r.ctx, pause) != nil {
			return err
		}
		pause = min(2*pause, lastRetry)
	}
}

// writeContexts is the context of what is written at about the same time.
type writeContexts struct {
	mu          sync.Mutex
	parent, ctx context.Context
	stop        context.CancelFunc // it ends by itself
	made        time.Time
}

// get returns a context that ends with parent, or after an attempt's time.
func (w *writeContexts) get(parent context.Context) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parent != parent || time.Since(w.made) >= shared {
		w.parent, w.made = parent, time.Now()
		w.ctx, w.stop = context.WithTimeoutCause(parent, writeTime+shared, records.ErrSlow)
	}
	return w.ctx
}

// writeContext returns the context of an attempt to write, and what is to be called after that.
func (r *run) writeContext() (context.Context, func()) {
	if r.unwritten != nil && !r.unwritten.ahead { // it has a context of its own
		return context.WithTimeoutCause(r.ctx, writeTime, records.ErrSlow)
	}
	ctx := r.m.contexts.get(r.ctx)
	if r.beginsAhead() { // its client waits
		ctx = records.Patient(ctx)
	}
	return ctx, func() {}
}

// attempt tries to write once what the present mark is for. stale says that the record may have
// changed, as it also may if it is not known whether what was tried last is there.
func (r *run) attempt(change func(t *records.Task) []Event, stale bool) error {
	if r.lost {
		return errLost
	}
	ctx, done := r.writeContext()
	defer done()
	if stale || r.trying != 0 && r.e.Exists() {
		if made, err := r.reload(ctx); made || err != nil {
			return err
		}
	}
	r.notes.back(r.told) // what was not written
	r.told = toTell{}
	next := r.e.Clone()
	now := r.m.now()
	if next.State != records.TaskEnded {
		next.Rest = time.Time{} // it is this worker's, unless change puts it to rest
	}
	events := change(&next.Task)
	if r.epoch == 0 && next.State == records.TaskQueued { // nobody goes on with it here
		r.rest(&next.Task, records.TaskQueued, r.m.due())
	}
	var told toTell
	if !r.beginsAhead() {
		told = r.notes.take(&next.Task)
	}
	events = append(told.events, events...)
	if len(events) > 0 || next.Status != r.e.Status || next.State != r.e.State || next.Message != r.e.Message || told.changed {
		next.Seen++
		next.Updated = now
	}
	items, shows := make([]records.TaskItem, len(events)), make([]shownEvent, len(events), len(events)+1)
	for i := range events {
		e := &events[i]
		next.Events++
		e.At, e.N = now, next.Events
		body, err := e.encode()
		if err != nil {
			return err
		}
		items[i] = records.TaskItem{N: next.Events, Body: body}
		shows[i] = shownEvent{*e, len(body)}
	}
	if next.State == records.TaskEnded && r.e.State != records.TaskEnded {
		next.Events++ // how it ends: the record says so
		shows = append(shows, shownEvent{endEvent(next), eventSize})
	}
	// To move a record's time costs a store more than all the rest: a lease that is not old is
	// left as it is.
	until, lease := r.until, r.m.lease()
	switch {
	case !next.Rest.IsZero() || next.State == records.TaskEnded:
		next.Wake = next.Rest
	case r.e.Taken() && r.e.Wake.Equal(until) && until.Sub(now) > lease*2/3:
	default:
		until = now.Add(lease)
		next.Wake = until
	}
	next.KeepUntil = keepUntil(&next.Task)
	next.Marks, r.trying = r.mark, r.mark
	began := time.Now()
	epoch, err := r.m.book.PutTask(ctx, next, r.isUnwritten() && r.unwritten.take, items...)
	r.m.writing.took(time.Since(began))
	if err != nil {
		r.told = told // it may have been made
		return err
	}
	r.m.writing.worked()
	r.made(next, epoch, until, shows)
	if r.lost && next.State != records.TaskEnded {
		return errLost
	}
	return nil
}

// made takes down what the record is now.
func (r *run) made(e *records.TaskEntry, epoch uint64, until time.Time, told []shownEvent) {
	r.e, r.until, r.trying = e, until, 0
	r.shown.set(e, false, told...)
	if e.Epoch() != epoch {
		r.lose()
	}
}

// reload finds out what the record is. made says that what is to be written is there after all.
func (r *run) reload(ctx context.Context) (made bool, err error) {
	found, err := r.m.book.TaskAt(ctx, r.key)
	if err != nil {
		return false, err
	}
	if found == nil || found.Saga != r.e.Saga {
		r.lose()
		return false, errLost
	}
	last := r.trying != 0 && found.Marks == r.trying && found.Epoch() >= r.epoch
	if last {
		r.told = toTell{}
	}
	made = last && r.trying == r.mark
	if found.Epoch() != r.epoch {
		r.lose()
		if made && found.State == records.TaskEnded {
			return true, nil
		}
		return false, errLost
	}
	if r.e, r.trying = found, 0; last {
		r.shown.set(found, false)
	}
	if found.Cancelled {
		r.cut(errCancelled)
	}
	return made, nil
}

// lose notes that the task is somebody else's.
func (r *run) lose() {
	r.lost = true
	r.shown.set(r.e, true)
	r.cut(errLost)
}

// keepUntil is until when a record is kept.
func keepUntil(t *records.Task) time.Time {
	switch {
	case t.State != records.TaskEnded:
		over := t.Over()
		if over.IsZero() || t.Rest.IsZero() {
			return time.Time{} // whoever runs it says so
		}
		return later(later(over, t.Due), t.Keep).Add(maxSlack) // somebody ends it before, as long as there are servers
	case len(t.Again) > 0:
		return later(t.Keep, t.Rest).Add(maxSlack)
	}
	return t.Keep
}

// rest puts a task to rest in a state until then. It is to be called within change. What somebody
// may have done before who is gone is not forgotten by that, unless it has come further.
func (r *run) rest(t *records.Task, state records.TaskState, until time.Time) {
	t.Loose = r.inFlight(t)
	t.State, t.Rest = state, until
	t.Base = r.epoch
}

// goesOn notes that the task has come further, or that it is this worker's still.
func (r *run) goesOn(t *records.Task) {
	t.State, t.Rest = records.TaskQueued, time.Time{}
	t.Base, t.Loose, t.Failures, t.LastError = max(r.epoch, 1)-1, false, 0, ""
}

// acting is called before the tool's code performs an effect: not without a lease, nor
// when the task is handed over.
func (r *run) acting(ctx context.Context) error {
	r.lock()
	defer r.unlock()
	if r.isUnwritten() {
		if err := r.makeLocked(unchanged); err != nil {
			return err
		}
	}
	if _, sure := r.m.time(); !sure {
		r.m.sync(ctx)
	}
	switch {
	case r.lost, r.m.passed(r.until):
		return errLost
	case r.handing:
		return errStopping
	}
	return nil
}
