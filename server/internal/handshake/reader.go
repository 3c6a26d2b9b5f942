package handshake

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/tasks2025"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// reader passes on to a client what comes of a request that waits for a task: on the stream of
// the request itself, or of one that goes on with it. It leaves when another one takes its
// place, when the client has been gone for a while, and when the server stops, if the client
// finds all of it elsewhere then.
type reader struct {
	*call
	task string
	// uri is what the request reads, if that is a resource.
	uri string
	// number is that of the request, by which other replicas go on with it; 0 is none.
	number uint64
	// alias is what the number leads to, if that is not the task itself.
	alias *alias
	// name tells it from the other readers of the request, if only the last one counts.
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
	// rev is the revision of the task from which on that knows of this reader.
	rev uint64
	// note is what was kept with the task when it was last looked at, and noted how that reads.
	note  json.RawMessage
	noted *taskNote
	// seen is told of each change that the client may see; it may be nil.
	seen func(*tasks.Task)
	// notes is the way of what the task tells, on a stream.
	notes *notes
	w     *waiter
}

const (
	// callWait is for how long the client of a call may be away that no token resumes: many
	// times as long as clients take to come back.
	callWait = 10 * time.Minute
	// callKeep is how long the end of a call is kept for such a client.
	callKeep = 5 * time.Minute
	// awayTime is how long a reader keeps what it has for a client that is gone, which may come
	// back for its stream: clients do after a second or two. Afterwards any replica has it, and
	// this one keeps nothing of the call.
	awayTime = 10 * time.Second
	// stopRetry is when clients come back whose stream ends as the server stops.
	stopRetry = time.Second
)

// patience is for how long a task goes on whose client may be away for wait. It is renewed each
// third of that.
func patienceFor(wait time.Duration) time.Duration { return 2 * wait }

// streams reports whether messages can be sent on the request's own stream over HTTP.
func (c *call) streams() bool { return c.post != nil && c.Way != nil }

// enter makes this reader the one of a task that has another, or none.
func (r *reader) enter(ctx context.Context, task *tasks.Task, also func(*resumption)) (*tasks.Task, error) {
	r.name = rand.Text()
	return r.Tasks.Renew(ctx, r.Principal, task.ID, patienceFor(r.wait), changeNote(func(n *taskNote) {
		if n.Resumption == nil {
			n.Resumption = &resumption{MaxWait: int64(r.wait / time.Second)}
		}
		n.Resumption.Reader, r.wait = r.name, n.Resumption.wait()
		if also != nil {
			also(n.Resumption)
		}
	}))
}

// read reads until the task's end. Seen is the number of the last event that the client has.
func (r *reader) read(ctx context.Context, task *tasks.Task, seen uint64) (*tasks.Task, error) {
	r.task, r.rev = task.ID, task.Rev
	r.w = &waiter{call: r.call, task: r.task, told: seen, patience: r.late, changed: r.changed, stays: func() bool { return r.once && !r.token.Load() }}
	if r.post != nil {
		r.post.stream.settle(r.number)
		r.mark(seen)
	}
	if r.streams() {
		r.notes = &notes{way: r.post, to: r.Notifier.Way}
		r.Notifier.Way = r.notes
		r.w.passing = r.passing
		if r.number != 0 {
			r.w.post, r.w.left = r.ask, r.stops
		}
		r.post.mu.Lock()
		r.post.call.reader = r
		r.post.mu.Unlock()
	}
	defer context.AfterFunc(r.Draining, func() { r.stops() })()
	defer r.resumesLater()()
	stop := r.keep(ctx)
	t, err := r.w.wait(ctx)
	stop()
	if err == nil {
		r.mark(t.Events + 1)
		return t, nil
	}
	elsewhere := errors.Is(err, turns.ErrGone) || errors.Is(err, turns.ErrLedger) && r.token.Load() || ctx.Err() != nil
	if elsewhere && !r.isOver(err) && r.canLeave() {
		r.leave(0) // it goes on without this client, or can be had later
	}
	return nil, err
}

// isOver reports whether the client has said that it wants nothing of the request any more.
func (r *reader) isOver(err error) bool {
	return errors.Is(err, dialect.ErrCancelled) || errors.Is(err, dialect.ErrSessionEnded) && !r.token.Load()
}

// canLeave reports whether the client finds what comes of the request elsewhere: by a token, or
// as it knows the id of an event. Clients of the first revision know none. Of those before
// 2025-11-25, whose streams servers were not to end, most do not look for the rest of one that has
// ended: where there is a choice, as when the server stops, they are not left.
func (r *reader) canLeave() bool {
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

// stops leaves if the server stops, and the client finds the rest elsewhere.
func (r *reader) stops() (left bool) {
	if r.Draining.Err() == nil || !r.canLeave() {
		return false
	}
	r.leave(stopRetry)
	return true
}

// leave ends the reader without an answer. The client may come back after retry.
func (r *reader) leave(retry time.Duration) {
	if r.post == nil {
		r.Way.(dialect.Leaver).Leave()
		return
	}
	if retry > 0 && r.post.stream.single {
		r.post.stream.carriedBy(nil, retry)
	}
	r.post.Leave()
}

// changed leaves if another reader has taken over, or the client has cancelled the request
// elsewhere.
func (r *reader) changed(t *tasks.Task) {
	if r.seen != nil {
		r.seen(t)
	}
	if r.noted == nil || !bytes.Equal(t.Note, r.note) {
		r.note, r.noted = t.Note, noteOf(t)
	}
	note := r.noted
	if note == nil || t.Rev < r.rev {
		return
	}
	if note.Call != nil && note.Call.Dropped && r.post != nil {
		r.post.call.cancel(dialect.ErrCancelled)
	}
	if note.Resumption != nil && r.name != "" && note.Resumption.Reader != r.name {
		r.leave(0)
	}
}

// mark has events from now on say how much was told.
func (r *reader) mark(told uint64) {
	if r.post != nil {
		r.post.mu.Lock()
		defer r.post.mu.Unlock()
		r.post.call.mark, r.post.call.task, r.post.call.number = markOf(r.task, told), r.task, r.number
	}
}

// notes is the way of what a task has told: the mark counts it already.
type notes struct {
	*way
	to   dialect.Way // what they would go to otherwise, which may add to them
	mark string      // the waiter passes one on at a time
}

func (n *notes) Notify(method string, params json.RawMessage) {
	if of, ok := n.to.(tasks2025.Related); ok {
		params = dialect.RelatedTask(params, of.Task)
	}
	n.stream.addMarked(n.mark, eventNote, wire.AppendCall(nil, 0, method, params))
}

// passing marks the event that is being passed on, and then those that come after it.
func (r *reader) passing(told uint64) (passed func()) {
	r.notes.mark = markOf(r.task, told)
	return func() { r.mark(told) }
}

// ask asks a question, the nth of the task, on the stream. Its id is the same on each stream of
// the request, and any replica can give the task the answer, so nothing waits for it here.
func (r *reader) ask(step steps.Step, n uint64) (takeBack func(why error), err error) {
	links := links{id: linkID(r.task, step.ID)}
	method, params, err := stepRequest(r.peer.revision, step, &links)
	if err != nil {
		return nil, err
	}
	if of, ok := r.Way.(tasks2025.Related); ok {
		params = dialect.RelatedTask(params, of.Task)
	}
	id := questionID(r.number, n)
	p := r.post
	event := p.stream.addMarked(p.mark(), eventRequest, wire.AppendCall(nil, id, method, params))
	back := func(why error) {
		p.mu.Lock()
		if why == errAnswered && slices.Contains(p.call.answered, id) {
			why = nil
		}
		// A client that reads on after a break must not ask its user what needs no answer any more.
		p.stream.drop(func(e streamEvent) bool { return e.number == event })
		p.mu.Unlock()
		if why != nil {
			p.Notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), why))
		}
	}
	var late *time.Timer
	if r.late > 0 {
		late = time.AfterFunc(r.late, func() {
			back(turns.ErrLate)
			a := steps.Answer{StepID: step.ID, Error: &steps.ClientError{Code: dialect.CodeLate, Message: turns.ErrLate.Error()}}
			_ = r.giveTaken(context.Background(), r.Principal, r.task, a, n) // if that fails, others may answer
		})
	}
	return func(why error) {
		switch {
		case late != nil && !late.Stop():
			return // the client knows
		case errors.Is(why, dialect.ErrLeft), why == errAnswered && r.name != "":
			why = nil // it is asked elsewhere, or nobody else can have answered
		}
		back(why)
	}, nil
}

// keep shows that the client is there, as long as it is, until stop is called.
func (r *reader) keep(ctx context.Context) (stop func()) {
	if r.wait == 0 && r.alias == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	every := aliasTime / 3
	if r.wait > 0 {
		every = min(every, r.wait/3)
	}
	renewed, there := time.Now(), time.Now()
	end := tick(min(every, awayTime/4), func() {
		now := time.Now()
		if r.post == nil || r.post.carried() {
			there = now
		} else if now.Sub(there) > awayTime && r.canLeave() {
			r.leave(0)
		}
		if there == now && now.Sub(renewed) >= every && r.renewed(ctx, every) {
			renewed = now
		}
	})
	return func() { cancel(); end() }
}

// renewed has what others need to go on with the request be kept for longer.
func (r *reader) renewed(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var err error
	if r.wait > 0 {
		_, err = r.Tasks.Renew(ctx, r.Principal, r.task, patienceFor(r.wait), nil)
	}
	if err == nil {
		err = r.keepAlias(ctx)
	}
	return err == nil
}

// tick calls f now and then until stop is called, which waits for it. It takes no goroutine
// meanwhile.
func tick(every time.Duration, f func()) (stop func()) {
	var mu sync.Mutex
	over := false
	var t *time.Timer
	mu.Lock()
	defer mu.Unlock()
	t = time.AfterFunc(every, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			f()
			t.Reset(every)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		t.Stop()
	}
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
