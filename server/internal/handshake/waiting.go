package handshake

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// waiter waits for a task on behalf of a request: it asks the client what the task asks, gives
// the task the answers, and passes on what the task tells. The task goes on all the same when
// the waiter does not, and several requests may wait for one: the first answer counts, and the
// others are told that theirs is not needed any more.
type waiter struct {
	*call
	// task is the id of the task, which is x.Principal's.
	task string
	// patience is how long the client may take to answer a question before that counts as
	// one that it cannot answer; zero is as long as the task waits.
	patience time.Duration
	// changed is told of each change that the client may see; it may be nil.
	changed func(*tasks.Task)
	// passing is told of the number of each event before that is passed on, and calls back when
	// it was; it may be nil.
	passing func(number uint64) (passed func())
	// telling keeps signs of life apart from what is passed on.
	telling sync.Mutex
	// post asks a question, the nth of the task, without waiting for the answer, which comes to
	// the task by itself. It returns how to take the question back: nil if there is nobody to tell.
	// If it is nil, the way is called.
	post func(step steps.Step, n uint64) (takeBack func(why error), err error)
	// left leaves, if the client can answer no more here and finds its questions elsewhere; it goes
	// with post.
	left func() bool
	// stays reports whether the request must not end because the ledger is away: its client would
	// send the same again, and that would be another one. It may be nil, if that is the same.
	stays func() bool
	// told is the number of the last event that was passed on, and heard how many of those before
	// it were for the client; 0 if that is not known.
	told, heard uint64

	waits atomic.Bool                // the task waits for the client
	asked map[string]func(why error) // takes back what the client is being asked, by step ids
	mu    sync.Mutex
	links links
}

// errAnswered takes back a question that somebody else has answered, or that the task does not
// wait for any more.
var errAnswered = errors.New("the answer is not needed any more")

const (
	// aliveTime is how often a client that wants to hear of progress is told that the task is
	// still there, so that it does not give up.
	aliveTime = 15 * time.Second
	// lastAnswers is how long a server that stops waits for what its clients answer elsewhere. It
	// is less than the server takes to stop.
	lastAnswers = 15 * time.Second
	// outage is for how long the ledger may fail before the request does, and outagePause how
	// long until it is tried again.
	outage      = time.Minute
	outagePause = 500 * time.Millisecond
	// eventPage is how many events are read at once.
	eventPage = 100
)

// wait waits until the task has ended. It fails with [context.Cause] when ctx ends, with an
// error that is [turns.ErrGone] when the client is gone or cannot be asked any more, and as
// [tasks.Viewer] does.
func (w *waiter) wait(ctx context.Context) (last *tasks.Task, err error) {
	defer dialect.Rest(w.Way)()
	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel(nil)
	defer w.keepAlive()()
	w.asked = make(map[string]func(error))
	if w.post != nil {
		defer context.AfterFunc(w.peer.answering, func() {
			why := context.Cause(w.peer.answering)
			if w.left() {
				return
			}
			if errors.Is(why, dialect.ErrStopping) { // another replica can take the answer
				select {
				case <-time.After(lastAnswers):
				case <-ctx.Done():
				}
			}
			if w.waits.Load() {
				cancel(why)
			}
		})()
	}
	defer func() {
		why := err
		switch {
		case err == nil:
			why = goneWith(last)
		case errors.Is(err, tasks.ErrNotFound):
			why = tasks.ErrNotFound // what else there is to say is for the log
		}
		for _, takeBack := range w.asked {
			takeBack(why)
		}
	}()
	var seen uint64
	var failing time.Time
	for {
		var failure error
		for t, err := range w.Tasks.Watch(ctx, w.Principal, w.task, seen) {
			if err == nil {
				err = w.tell(ctx, t)
			}
			if failure = err; err != nil {
				break
			}
			failing, seen = time.Time{}, t.Rev
			if w.changed != nil {
				w.changed(t)
			}
			if t.Status.Ended() {
				return t, nil
			}
			w.ask(ctx, &asking, cancel, t)
		}
		now := time.Now()
		if failing.IsZero() {
			failing = now
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case failure != nil && !errors.Is(failure, turns.ErrLedger), now.Sub(failing) > outage && !w.isToStay():
			return nil, cmp.Or(failure, turns.ErrLedger)
		}
		// The task goes on when the ledger answers again, and so does this.
		select {
		case <-time.After(outagePause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// isToStay calls stays, if there is one.
func (w *waiter) isToStay() bool { return w.stays != nil && w.stays() }

// tell passes on what the task has told since it was last looked at.
func (w *waiter) tell(ctx context.Context, t *tasks.Task) error {
	if w.Notifier != nil && w.told < t.Events && t.Told == w.heard && (w.told == 0 || w.heard > 0) {
		w.skip(t.Events) // the rest need not be read
	}
	for w.Notifier != nil && w.told < t.Events {
		events, err := w.Tasks.Events(ctx, w.Principal, w.task, w.told, eventPage)
		if err != nil {
			return err
		}
		for i := range events {
			w.pass(&events[i])
			w.told = events[i].N
		}
		if len(events) < eventPage {
			w.told = max(w.told, t.Events) // what is not there any more is not waited for
		}
	}
	w.heard = t.Told
	return nil
}

// skip counts events as passed on that are not for the client.
func (w *waiter) skip(to uint64) {
	w.telling.Lock()
	defer w.telling.Unlock()
	if w.told = to; w.passing != nil {
		w.passing(to)()
	}
}

// pass passes an event on.
func (w *waiter) pass(e *tasks.Event) {
	w.telling.Lock()
	defer w.telling.Unlock()
	if w.passing != nil {
		defer w.passing(e.N)()
	}
	switch {
	case e.Progress != nil:
		w.Notifier.Progress(*e.Progress)
	case e.Log != nil:
		w.Notifier.Log(*e.Log)
	}
}

// keepAlive shows a client that wants to hear of progress that it does not wait in vain, until
// stop is called.
func (w *waiter) keepAlive() (stop func()) {
	if w.Notifier == nil || w.Notifier.Token == nil {
		return func() {}
	}
	return tick(aliveTime/3, func() {
		w.telling.Lock()
		defer w.telling.Unlock()
		w.Notifier.Alive(aliveTime * 2 / 3)
	})
}

// ask asks the client those of the task's questions that it was not asked yet, and takes back
// those that need no answer any more. What makes it impossible to go on is said to failed: an
// *[engine.UnsupportedError] if the client cannot be asked what it would have to be.
func (w *waiter) ask(ctx context.Context, asking *sync.WaitGroup, failed func(error), t *tasks.Task) {
	tool, open := "", make(map[string]bool, len(t.Questions))
	if t.Program != nil {
		tool = t.Program.Name
	}
	for _, step := range t.Questions {
		open[step.ID] = true
	}
	for id, takeBack := range w.asked {
		if !open[id] {
			takeBack(goneWith(t))
			delete(w.asked, id)
		}
	}
	w.waits.Store(len(open) > 0)
	if w.post != nil && len(open) > 0 && w.peer.answering.Err() != nil {
		why := context.Cause(w.peer.answering)
		if w.left() {
			return
		}
		if !errors.Is(why, dialect.ErrStopping) {
			failed(why)
			return
		}
	}
	for i, step := range t.Questions {
		if w.asked[step.ID] != nil {
			continue
		}
		if w.Way == nil || !w.Turns.Features(w.features).Has(step.Needs) {
			failed(&engine.UnsupportedError{Tool: tool, StepID: step.ID, Needs: step.Needs})
			return
		}
		if w.post != nil {
			takeBack, err := w.post(step, t.Numbers[i])
			if err != nil {
				failed(err)
				return
			}
			w.asked[step.ID] = takeBack
			continue
		}
		ctx, cancel := context.WithCancelCause(ctx)
		w.asked[step.ID] = cancel
		asking.Go(func() {
			defer cancel(nil)
			if err := w.askOne(ctx, cancel, step, t.Numbers[i]); err != nil && context.Cause(ctx) != errAnswered {
				failed(err)
			}
		})
	}
}

// askOne asks the client a question, the nth of the task, and gives that the answer. cancel ends ctx.
func (w *waiter) askOne(ctx context.Context, cancel context.CancelCauseFunc, step steps.Step, n uint64) error {
	if w.peer.answering.Err() != nil {
		return context.Cause(w.peer.answering)
	}
	defer context.AfterFunc(w.peer.answering, func() { cancel(context.Cause(w.peer.answering)) })()
	if w.patience > 0 {
		late := time.AfterFunc(w.patience, func() { cancel(turns.ErrLate) })
		defer late.Stop()
	}
	w.mu.Lock()
	method, params, err := stepRequest(w.peer.revision, step, &w.links)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	a, err := w.Way.Call(ctx, method, params)
	switch {
	case errors.Is(err, turns.ErrLate):
		a = steps.Answer{Error: &steps.ClientError{Code: dialect.CodeLate, Message: err.Error()}}
	case err != nil:
		return err
	}
	a.StepID = step.ID
	w.mu.Lock()
	w.links.answered(step.ID, a)
	w.mu.Unlock()
	// The client may have been told that it has arrived.
	for {
		err = w.giveTaken(context.WithoutCancel(ctx), w.Principal, w.task, a, n)
		switch {
		case err == errNoQuestion:
			return nil // somebody else was faster
		case !errors.Is(err, turns.ErrLedger) || ctx.Err() != nil || !w.isToStay():
			return err
		}
	}
}

// goneWith is why a task's question needs no answer any more, as the task is now.
func goneWith(t *tasks.Task) error {
	if t.Cancelling || t.Status == tasks.Cancelled {
		return dialect.ErrCancelled
	}
	return errAnswered
}

// opened tells the client that what it was to do on other pages is done.
func (w *waiter) opened(t *tasks.Task) {
	if w.Way == nil {
		return
	}
	accepted := w.links.accepted
	if list, ok := jsonview.Strings(jsonview.Get(t.Note, "accepted")); ok {
		accepted = append(accepted, list...)
	}
	w.completed(accepted)
}
