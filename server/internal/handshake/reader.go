package handshake

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
)

// reader follows a task on behalf of a request, in one loop of its goroutine ([reader.follow]): it sends the client what the task
// says and asks. The task does not depend on it. Several may follow one task: the first answer counts, and the others learn that
// theirs is not needed any more. A reader leaves when another one takes its place, when its connection has ended, and when the
// server stops, if the client finds the rest at any replica: the stream is a view of the task's log.
type reader struct {
	*call
	task string
	// number is that of the request, by which other replicas continue it; 0 is none.
	number uint64
	// name distinguishes it from the other readers of the request, if only the last one counts.
	name string
	// token: the client can resume the request by a token. resumes, if not zero, is when it gets one.
	token   atomic.Bool
	resumes time.Time
	// wait is for how long the client may be away until the task is given up, which renews puts off; zero: for ever.
	wait   time.Duration
	renews time.Time
	// looks is when it is looked again whether there is anything to do.
	looks time.Time
	// once: the same request sent again would be another one, unless the task is still under way.
	once bool
	// late is how long the client may take to answer a question before that counts as one that it cannot answer; zero is as
	// long as the task waits.
	late time.Duration
	// rev is the revision of the task from which on that knows of this reader.
	rev  uint64
	held bool // package elsewhere waits for the task
	// seen is called for each change that the client may see; it may be nil.
	seen func(*tasks.Task)

	visits []string // the links whose pages are known to be done with

	asked  map[string]*asked // what the client is being asked, by step ids
	waits  atomic.Bool       // the task waits, or does not need its reader
	asking sync.WaitGroup
	// calling: a call asks what the task waits for. When the client says no more, that ends by itself: its answer has come,
	// or none does.
	calling atomic.Bool
}

const (
	// callWait is for how long the client of a call may be away without a token: much longer than any stays away.
	callWait = 10 * time.Minute
	// callKeep is how long the end of a call is kept for such a client.
	callKeep = 5 * time.Minute
	// stopRetry is when clients come back whose stream ends as the server stops.
	stopRetry = time.Second
	// aliveTime is how often a client that wants to hear of progress gets a sign of life. It is looked three times as often
	// whether there is anything to do.
	aliveTime = 15 * time.Second
	tickTime  = aliveTime / 3
	// answersTime is how long a server that stops waits for answers: less than it takes to stop.
	answersTime = 15 * time.Second
	// outage is for how long the ledger may fail before the request does, and outagePause how
	// long until it is tried again; for a reader, of which there may be many, up to longestPause.
	outage       = time.Minute
	outagePause  = 500 * time.Millisecond
	longestPause = 5 * time.Second
)

// patienceFor is for how long a task runs whose client may be away for wait, and renews that in thirds of it.
func patienceFor(wait time.Duration) time.Duration { return 2 * wait }

// streams reports whether messages can be sent on the request's own stream over HTTP.
func (c *call) streams() bool { return c.post != nil && c.Way != nil }

// posts reports whether other replicas can continue the request on such a stream.
func (r *reader) posts() bool { return r.streams() && r.number != 0 }

// enter makes this reader the one of a task that has another, or none. seen is what the client shows to know.
func (r *reader) enter(ctx context.Context, task *tasks.Task, seen uint64) (*tasks.Task, error) {
	r.name = crand.Text()
	return r.Tasks.Renew(ctx, r.Principal, task.ID, patienceFor(r.wait), dialect.ChangeNote(func(n *dialect.Note) {
		n.Reader, n.MaxWait, n.Seen = r.name, int64(r.wait/time.Second), max(n.Seen, seen)
	}))
}

// read follows the task until its end. Seen is the number of the last event that the client has.
func (r *reader) read(ctx context.Context, task *tasks.Task, seen uint64) (*tasks.Task, error) {
	r.task, r.rev = task.ID, task.Rev
	t, err := r.follow(ctx, seen)
	if err == nil {
		return t, nil
	}
	elsewhere := errors.Is(err, turns.ErrGone) || errors.Is(err, turns.ErrLedger) && r.token.Load() || ctx.Err() != nil
	over := errors.Is(err, dialect.ErrCancelled) || errors.Is(err, dialect.ErrSessionEnded) && !r.token.Load() // the client wants nothing of it any more
	if elsewhere && !over && r.canLeave() {
		r.leave(0) // the task runs without this client, or can be had later
	}
	return nil, err
}

// follow sends the client what comes of the task until that has ended. It fails with [context.Cause] when ctx
// ends, with an error that is [turns.ErrGone] when the client is gone or cannot be asked any more, and as
// [tasks.Viewer] does.
func (r *reader) follow(ctx context.Context, seen uint64) (last *tasks.Task, err error) {
	defer r.Pause(true)() // while it waits, others may have its place
	ctx, cancel := context.WithCancelCause(ctx)
	defer r.asking.Wait()
	defer cancel(nil)
	defer context.AfterFunc(r.Draining, func() { r.leaveIfMute() })() // if the client can go on at another replica
	defer context.AfterFunc(r.Closing, func() { r.lastAnswers(ctx, cancel) })()
	r.asked = make(map[string]*asked)
	defer func() { // the task has ended, or following it has failed
		why := err
		switch {
		case err == nil:
			why = goneWith(last)
		case errors.Is(err, tasks.ErrNotFound):
			why = tasks.ErrNotFound // what else there is to say is for the log
		}
		for _, q := range r.asked {
			q.takeBack(why)
		}
	}()
	r.looks, r.renews = time.Now().Add(tickTime), time.Now().Add(r.wait/3)
	r.markPassed(seen)
	var failing time.Time // since when the ledger fails; zero if it does not
	for {
		for news, failed := range r.Tasks.Follow(ctx, r.Principal, r.task, seen, r.next) {
			switch {
			case failed != nil && ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case failed != nil:
				if failing.IsZero() {
					failing = time.Now()
				}
				if !r.outlasts(ctx, failed, time.Since(failing)) {
					return nil, failed
				}
			case news.Event != nil:
				seen = news.Event.N
				r.markPassed(seen)
				r.Notifier.Pass(news.Event)
			case news.Task != nil:
				last, failing, seen = news.Task, time.Time{}, max(seen, news.Task.Events)
				r.markPassed(seen)
				r.changed(last) // leaves if another reader has its place, or the request is cancelled
				r.sendFinishedPages(last)
				if last.Status.Ended() {
					return last, nil
				}
				r.ask(ctx, cancel, last) // ends ctx if the client cannot be asked
			default:
				r.tick(ctx)
			}
		}
		// The ledger has failed: the task runs on when it answers again, and so does this.
		r.tick(ctx)
		pause := min(max(outagePause, time.Since(failing)/2), longestPause)
		select {
		case <-time.After(min(pause/2+rand.N(pause), time.Until(r.next()))): // not all of them at once
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lastAnswers ends the wait of a task whose client is asked no more, after the time that is left for answers.
func (r *reader) lastAnswers(ctx context.Context, cancel context.CancelCauseFunc) {
	if !r.leaveIfMute() {
		select {
		case <-time.After(answersTime):
		case <-ctx.Done():
		}
	}
	if r.waitsInVain() {
		cancel(context.Cause(r.Closing))
	}
}

// waitsInVain reports whether no one is waited for any more, and the task waits.
func (r *reader) waitsInVain() bool {
	why := context.Cause(r.Closing)
	return r.waits.Load() && why != nil && !(r.calling.Load() && errors.Is(why, dialect.ErrSessionEnded))
}

// outlasts reports whether the reader waits on although the ledger has failed for some time. A client without
// another way back to its task would make the same call again, so its reader does for as long as it takes.
func (r *reader) outlasts(ctx context.Context, err error, failing time.Duration) bool {
	noWayBack := r.once && !r.token.Load() && ctx.Err() == nil
	return errors.Is(err, turns.ErrLedger) && (failing <= outage || noWayBack)
}

// changed leaves if another reader has taken over, or the client has cancelled the request elsewhere.
func (r *reader) changed(t *tasks.Task) {
	if r.seen != nil {
		r.seen(t)
	}
	if t.Rev < r.rev {
		return
	}
	note := dialect.NoteOf(t)
	if note.Dropped && r.post != nil {
		r.post.call.cancel(dialect.ErrCancelled)
	}
	if note.Reader != "" && r.name != "" && note.Reader != r.name {
		r.leave(0)
	}
}

// next is when the reader has something to do next although its task has not changed.
func (r *reader) next() time.Time {
	next := r.looks
	if r.wait > 0 && r.renews.Before(next) {
		next = r.renews
	}
	if !r.resumes.IsZero() && r.resumes.Before(next) {
		next = r.resumes
	}
	for _, q := range r.asked {
		if !q.late.IsZero() && q.late.Before(next) {
			next = q.late
		}
	}
	return next
}

// tick does what is due. A reader without a connection leaves if its client can read on elsewhere.
func (r *reader) tick(ctx context.Context) {
	now := time.Now()
	carried := r.post == nil || r.post.carried()
	if !carried && r.post.session.ctx.Err() == nil && r.canLeave() { // what ends with its session is over
		r.leave(0)
		return
	}
	if !now.Before(r.looks) {
		r.looks = now.Add(tickTime)
		if r.Notifier != nil && r.Notifier.Token != nil {
			r.Notifier.Alive(aliveTime - tickTime)
		}
	}
	if !r.resumes.IsZero() && !now.Before(r.resumes) {
		r.token.Store(true) // before the client reads it
		r.token.Store(r.sendPolicy() == nil)
		r.resumes = time.Time{}
	}
	for step, q := range r.asked {
		if !q.late.IsZero() && !now.Before(q.late) {
			r.tooLate(ctx, step, q)
		}
	}
	if every := r.wait / 3; every > 0 && !now.Before(r.renews) {
		r.renews = now.Add(every)
		if !carried {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, every)
		defer cancel()
		if _, err := r.Tasks.Renew(ctx, r.Principal, r.task, patienceFor(r.wait), nil); err != nil {
			r.renews = now.Add(min(every, outage))
		}
	}
}

// canLeave reports whether the client finds what comes of the request elsewhere: by a token, or
// as it knows the id of an event. Clients of the first revision know none. Of those before
// 2025-11-25, whose streams servers were not to end, most do not look for the rest of one that has
// ended: where there is a choice, as when the server stops, they keep theirs.
func (r *reader) canLeave() bool {
	if r.token.Load() {
		return true
	}
	if !r.posts() || !r.post.stream.single || r.peer.revision < revision.March2025 {
		return false
	}
	if r.Draining.Err() != nil && r.peer.revision < revision.November2025 {
		return false
	}
	r.post.mu.Lock()
	defer r.post.mu.Unlock()
	return r.post.stream.shown
}

// leave ends the reader without an answer. The client may come back after retry.
func (r *reader) leave(retry time.Duration) {
	if r.post == nil {
		r.Way.(dialect.Leaver).Leave()
		return
	}
	if retry > 0 && r.post.stream.single {
		r.post.carry(&r.post.stream.carrier, nil, retry)
	}
	r.post.Leave()
}

// leaveIfMute ends the wait of a task whose client can answer no more, or finds its questions at another replica. It
// reports false if the client can be asked for a while.
func (r *reader) leaveIfMute() bool {
	if r.Draining.Err() != nil && r.canLeave() {
		r.leave(stopRetry)
		return true
	}
	return !r.posts() || !errors.Is(context.Cause(r.Closing), dialect.ErrStopping) // another replica can take the answer
}

// markPassed has the ids of events from now on say how much of the task's log was passed on.
func (r *reader) markPassed(seen uint64) {
	if r.post == nil || !r.post.stream.single { // no other replica has what else a stream carries
		return
	}
	mark := ""
	if r.number != 0 { // else no number leads to it
		mark = markOf(r.number, seen)
	}
	r.post.stream.settle(mark)
}
