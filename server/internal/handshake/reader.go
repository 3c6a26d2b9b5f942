package handshake

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
)

// reader follows a task on behalf of a request: it sends the client what the task says and asks, on the
// stream of the request itself or of one that continues it. All of it is done by the goroutine of the
// request, in one loop ([reader.follow]). The task does not depend on its reader. Several requests may
// follow one task: the first answer counts, and the others learn that theirs is not needed any more.
//
// A reader detaches when another one takes its place, when its connection has ended, and when the
// server stops, if the client finds the rest at any replica then: the stream is a view of the task's log.
type reader struct {
	*call
	task string
	// uri is what the request reads, if that is a resource.
	uri string
	// number is that of the request, by which other replicas continue it; 0 is none.
	number uint64
	// alias is what the number leads to, if that is not the task itself.
	alias *alias
	// name distinguishes it from the other readers of the request, if only the last one counts.
	name string
	// token: the client can resume the request by a token. If it will, once the request has taken
	// long, resumes is when.
	token   atomic.Bool
	resumes time.Time
	// wait is for how long the client may be away until the task is given up; zero: the task
	// does not depend on it.
	wait time.Duration
	// once: the same request sent again would be another one, unless the task is still under way.
	once bool
	// late is how long the client may take to answer a question before that counts as one that
	// it cannot answer; zero is as long as the task waits.
	late time.Duration
	// passed is the number of the last event of the task's log that was passed on.
	passed uint64
	// rev is the revision of the task from which on that knows of this reader.
	rev uint64
	// seen is called for each change that the client may see; it may be nil.
	seen func(*tasks.Task)

	asked  map[string]*asked // what the client is being asked, by step ids
	waits  atomic.Bool       // the task waits for the client
	asking sync.WaitGroup
	mu     sync.Mutex
	links  links
	schedule
}

// schedule says when a reader has something to do although its task has not changed. Zero is never.
type schedule struct {
	// alive is when a client that wants to hear of progress gets a sign of life next, and renewal when
	// the task is renewed next, which is done each time that renews is over.
	alive, renewal time.Time
	renews         time.Duration
}

const (
	// callWait is for how long the client of a call may be away that no token resumes: many
	// times as long as clients take to come back.
	callWait = 10 * time.Minute
	// callKeep is how long the end of a call is kept for such a client.
	callKeep = 5 * time.Minute
	// stopRetry is when clients come back whose stream ends as the server stops.
	stopRetry = time.Second
	// aliveTime is how often a client that wants to hear of progress gets a sign that the task is
	// still there, so that it does not give up.
	aliveTime = 15 * time.Second
	// lastAnswers is how long a server that stops waits for what its clients answer elsewhere. It
	// is less than the server takes to stop.
	lastAnswers = 15 * time.Second
	// outage is for how long the ledger may fail before the request does, and outagePause how
	// long until it is tried again.
	outage      = time.Minute
	outagePause = 500 * time.Millisecond
)

// patienceFor is for how long a task runs whose client may be away for wait. It is renewed each
// third of that.
func patienceFor(wait time.Duration) time.Duration { return 2 * wait }

// streams reports whether messages can be sent on the request's own stream over HTTP.
func (c *call) streams() bool { return c.post != nil && c.Way != nil }

// enter makes this reader the one of a task that has another, or none.
func (r *reader) enter(ctx context.Context, task *tasks.Task, also func(*resumption)) (*tasks.Task, error) {
	r.name = rand.Text()
	return r.Tasks.Renew(ctx, r.Principal, task.ID, patienceFor(r.wait), changeNote(func(n *taskNote) {
		n.Resumption = cmp.Or(n.Resumption, &resumption{})
		n.Resumption.Reader, n.Resumption.MaxWait = r.name, int64(r.wait/time.Second)
		if also != nil {
			also(n.Resumption)
		}
	}))
}

// read follows the task until its end. Seen is the number of the last event that the client has.
func (r *reader) read(ctx context.Context, task *tasks.Task, seen uint64) (*tasks.Task, error) {
	r.task, r.rev = task.ID, task.Rev
	t, err := r.follow(ctx, seen)
	if err == nil {
		r.mark(t.Events + 1)
		return t, nil
	}
	elsewhere := errors.Is(err, turns.ErrGone) || errors.Is(err, turns.ErrLedger) && r.token.Load() || ctx.Err() != nil
	if elsewhere && !r.isOver(err) && r.canDetach() {
		r.detach(0) // the task runs without this client, or can be had later
	}
	return nil, err
}

// follow sends the client what comes of the task until that has ended. It fails with [context.Cause] when ctx
// ends, with an error that is [turns.ErrGone] when the client is gone or cannot be asked any more, and as
// [tasks.Viewer] does.
func (r *reader) follow(ctx context.Context, seen uint64) (last *tasks.Task, err error) {
	defer dialect.Rest(r.Way)()
	ctx, cancel := context.WithCancelCause(ctx)
	defer r.asking.Wait()
	defer cancel(nil)
	defer context.AfterFunc(r.Draining, func() { r.stops() })()
	defer context.AfterFunc(r.peer.answering, func() { r.silenced(ctx, cancel) })()
	r.asked = make(map[string]*asked)
	defer func() {
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
	r.mark(seen)
	if r.attach(); ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r.plan()
	for failing := (time.Time{}); ; {
		for news, err := range r.Tasks.Follow(ctx, r.Principal, r.task, seen, r.next) {
			switch {
			case err != nil:
				if failing.IsZero() {
					failing = time.Now()
				}
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				// The client of a call that is only made once would send the same again, and that would be another one.
				if stays := r.once && !r.token.Load(); !errors.Is(err, turns.ErrLedger) || time.Since(failing) > outage && !stays {
					return nil, err
				}
			case news.Event != nil:
				seen = news.Event.N
				r.mark(seen)
				r.pass(news.Event)
			case news.Task != nil:
				last, failing, seen = news.Task, time.Time{}, max(seen, news.Task.Events)
				r.mark(seen)
				r.changed(last)
				if last.Status.Ended() {
					return last, nil
				}
				r.ask(ctx, cancel, last)
			default:
				r.tick(ctx)
			}
		}
		// The task runs on when the ledger answers again, and so does this.
		r.tick(ctx)
		select {
		case <-time.After(outagePause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// pass sends an event.
func (r *reader) pass(e *tasks.Event) {
	switch {
	case r.Notifier == nil:
	case e.Progress != nil:
		r.Notifier.Progress(*e.Progress)
	case e.Log != nil:
		r.Notifier.Log(*e.Log)
	}
}

// changed detaches if another reader has taken over, or the client has cancelled the request
// elsewhere.
func (r *reader) changed(t *tasks.Task) {
	if r.seen != nil {
		r.seen(t)
	}
	note := noteOf(t)
	if note == nil || t.Rev < r.rev {
		return
	}
	if note.Call != nil && note.Call.Dropped && r.post != nil {
		r.post.call.cancel(dialect.ErrCancelled)
	}
	if note.Resumption != nil && r.name != "" && note.Resumption.Reader != r.name {
		r.detach(0)
	}
}

// plan makes the schedule.
func (r *reader) plan() {
	if r.Notifier != nil && r.Notifier.Token != nil {
		r.alive = time.Now().Add(aliveTime / 3)
	}
	if r.wait == 0 && r.alias == nil {
		return
	}
	r.renews = aliasTime / 3
	if r.wait > 0 {
		r.renews = min(r.renews, r.wait/3)
	}
	r.renewal = time.Now().Add(r.renews)
}

// next is when there is something to do by the schedule.
func (r *reader) next() time.Time {
	next := time.Now().Add(math.MaxInt64)
	for _, at := range [...]time.Time{r.alive, r.renewal, r.policy()} {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	for _, q := range r.asked {
		if !q.late.IsZero() && q.late.Before(next) {
			next = q.late
		}
	}
	return next
}

// tick does what is to be done by the schedule.
func (r *reader) tick(ctx context.Context) {
	now := time.Now()
	if due(now, r.alive) {
		r.alive = r.alive.Add(aliveTime / 3)
		r.Notifier.Alive(aliveTime * 2 / 3)
	}
	if due(now, r.policy()) {
		r.sendPolicyLate()
	}
	if due(now, r.renewal) {
		r.renewal = now.Add(r.renews)
		r.renewTask(ctx)
	}
	for _, q := range r.asked {
		if due(now, q.late) {
			q.late = time.Time{}
			q.tooLate()
		}
	}
}

func due(now, at time.Time) bool { return !at.IsZero() && !now.Before(at) }

// renewTask has what others need to continue the request be kept for longer, while the client is there.
func (r *reader) renewTask(ctx context.Context) {
	if r.post != nil && !r.post.carried() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.renews)
	defer cancel()
	var err error
	if r.wait > 0 {
		_, err = r.Tasks.Renew(ctx, r.Principal, r.task, patienceFor(r.wait), nil)
	}
	if err == nil {
		err = r.keepAlias(ctx)
	}
	if err != nil && ctx.Err() == nil {
		r.renewal = time.Now().Add(min(r.renews, outage))
	}
}

// attach has the reader detach as soon as no connection carries its stream, if the client can read on
// elsewhere: then nothing of the call stays in memory.
func (r *reader) attach() {
	if !r.streams() || !r.post.stream.single {
		return
	}
	st := r.post.stream
	detach := func() {
		if st.session.ctx.Err() == nil && r.canDetach() { // what ends with its session is over
			r.detach(0)
		}
	}
	st.session.mu.Lock()
	st.detach = detach
	carried := st.reader != nil
	st.session.mu.Unlock()
	if !carried {
		detach()
	}
}

// isOver reports whether the client has said that it wants nothing of the request any more.
func (r *reader) isOver(err error) bool {
	return errors.Is(err, dialect.ErrCancelled) || errors.Is(err, dialect.ErrSessionEnded) && !r.token.Load()
}

// canDetach reports whether the client finds what comes of the request elsewhere: by a token, or
// as it knows the id of an event. Clients of the first revision know none. Of those before
// 2025-11-25, whose streams servers were not to end, most do not look for the rest of one that has
// ended: where there is a choice, as when the server stops, they keep theirs.
func (r *reader) canDetach() bool {
	if r.token.Load() {
		return true
	}
	if !r.streams() || r.number == 0 || !r.peer.revision.EventIDs() {
		return false
	}
	if r.Draining.Err() != nil && r.peer.revision < revision.November2025 {
		return false
	}
	r.post.mu.Lock()
	defer r.post.mu.Unlock()
	return r.post.stream.shown
}

// stops detaches if the server stops, and the client finds the rest elsewhere.
func (r *reader) stops() (detached bool) {
	if r.Draining.Err() == nil || !r.canDetach() {
		return false
	}
	r.detach(stopRetry)
	return true
}

// detach ends the reader without an answer. The client may come back after retry.
func (r *reader) detach(retry time.Duration) {
	if r.post == nil {
		r.Way.(dialect.Leaver).Leave()
		return
	}
	if retry > 0 && r.post.stream.single {
		r.post.stream.carriedBy(nil, retry)
	}
	r.post.Leave()
}

// mark has the ids of events from now on say how much of the task's log was passed on.
func (r *reader) mark(seen uint64) {
	if r.passed = seen; r.post == nil {
		return
	}
	number := r.number
	if !r.post.stream.single { // no other replica has what the stream carries besides
		number = 0
	}
	mark := markOf(number, seen)
	r.post.mu.Lock()
	r.post.call.mark, r.post.call.task, r.post.call.number = mark, r.task, r.number
	r.post.mu.Unlock()
	r.post.stream.settle(mark)
}

// Leave implements [dialect.Leaver].
func (w *way) Leave() {
	w.mu.Lock()
	w.call.left = true
	w.mu.Unlock()
	w.call.cancel(dialect.ErrLeft)
}

// isLeft reports whether the request ends without an answer.
func (w *way) isLeft() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.call.left
}

// mark is what the ids of events of the call end with.
func (w *way) mark() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.call.mark
}

// carried reports whether a connection carries the stream.
func (w *way) carried() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream.reader != nil
}
