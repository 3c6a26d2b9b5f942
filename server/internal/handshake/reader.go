package handshake

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// reader passes on to a client what comes of a resumable request: on the stream of the request
// itself, or of one that resumes it. It leaves when another one takes its place, when the client
// has been gone for a while, and when the server stops: the client finds all of it elsewhere.
type reader struct {
	*call
	// name tells it from the other readers of the request.
	name    string
	maxWait int64
	// rev is the revision of the task from which on that knows of this reader.
	rev  uint64
	task string
	// notes is the way of what the task tells, over HTTP.
	notes *notes
}

// resumable has a call that is about to begin be resumable, if it can be. The reader is nil if
// not.
func (c *call) resumable(t *engine.Program, start *tasks.Start) (*reader, error) {
	if _, ok := c.Way.(dialect.Leaver); !ok || !c.canResume() {
		return nil, nil
	}
	r := &reader{call: c, name: rand.Text(), maxWait: int64(waitOf(t) / time.Second)}
	kept := resumption{Reader: r.name, MaxWait: r.maxWait}
	note, err := wire.Marshal(taskNote{Resumption: &kept})
	start.Note, start.Patience = note, kept.patience()
	return r, err
}

// begin tells the client how to resume its call, and reads for it.
func (r *reader) begin(ctx context.Context, task *tasks.Task, key string) (*content.Result, error) {
	kept := resumptionOf(task.Note)
	if kept == nil || kept.Reader != r.name { // the same call was made before, by its key
		var err error
		if task, err = r.enter(ctx, task); err != nil {
			return nil, err
		}
	}
	token, err := r.sealTicket(task.ID)
	if err != nil {
		return nil, err
	}
	b := append([]byte(`{"requestId":`), r.Message.ID...)
	b = wire.AppendString(append(b, `,"resumeToken":`...), token)
	b = strconv.AppendInt(append(b, `,"maxWait":`...), r.maxWait, 10)
	b = append(b, '}')
	if w, ok := r.Way.(*way); ok {
		// Not a note: those are left out when there are too many.
		w.stream.add(eventRequest, wire.AppendCall(nil, 0, policyMethod, b))
	} else {
		r.Way.Notify(policyMethod, b)
	}
	r.rev = task.Rev
	result, err := r.read(ctx, task.ID, 0)
	if errors.Is(err, dialect.ErrCancelled) || key == "" && errors.As(err, new(*engine.UnsupportedError)) {
		r.giveUp(ctx, task.ID)
	}
	return result, err
}

// enter makes this reader the one of a task that has another, or none.
func (r *reader) enter(ctx context.Context, task *tasks.Task) (*tasks.Task, error) {
	patience := (&resumption{MaxWait: r.maxWait}).patience()
	return r.Tasks.Renew(ctx, r.Principal, task.ID, patience, func(old json.RawMessage) json.RawMessage {
		var n taskNote
		_ = json.Unmarshal(old, &n) // it may be empty
		if n.Resumption == nil {
			n.Resumption = &resumption{MaxWait: r.maxWait}
		}
		n.Resumption.Reader, r.maxWait = r.name, n.Resumption.MaxWait
		note, err := wire.Marshal(n)
		if err != nil {
			return old
		}
		return note
	})
}

// errNoStream is what a client reads that resumes a request where nothing can be passed on.
var errNoStream = wire.NewError(wire.CodeInvalidRequest, "a request is resumed on a stream: accept text/event-stream")

// resume answers requests/resume as the request that it resumes.
func (c *call) resume(ctx context.Context) (json.RawMessage, error) {
	t, err := c.readResume(true)
	if err != nil {
		return nil, err
	}
	if _, ok := c.Way.(dialect.Leaver); !ok {
		return nil, errNoStream
	}
	r := &reader{call: c, name: rand.Text()}
	confirm := c.confirm(t.Task)
	task, kept, err := c.renew(ctx, t, func(k *resumption) {
		confirm(k)
		k.Reader = r.name
	})
	if err != nil {
		return nil, err
	}
	r.maxWait, r.rev = kept.MaxWait, task.Rev
	c.Notifier.Token = t.Token
	result, err := r.read(ctx, t.Task, kept.Seen)
	var lacking *engine.UnsupportedError
	switch {
	case errors.Is(err, dialect.ErrCancelled):
		r.giveUp(ctx, t.Task)
		return nil, err
	case errors.As(err, &lacking): // another session of the client's may be able to
		return nil, wire.NewError(wire.CodeInvalidRequest, c.lacks(lacking)+"; resume the request with a client that can be asked")
	case errors.Is(err, tasks.ErrNotFound):
		return nil, errResume
	case err != nil:
		return nil, err
	}
	return wire.Marshal(plainResult(c.peer.revision, result))
}

// read reads until the request's end. Seen is the number of the last event that the client has.
func (r *reader) read(ctx context.Context, task string, seen uint64) (*content.Result, error) {
	r.task = task
	if w, ok := r.Way.(*way); ok {
		r.notes = &notes{way: w}
		r.Notifier.Way = r.notes
	}
	r.mark(seen)
	w := &waiter{call: r.call, task: task, told: seen, passing: r.passing, questionID: r.questionID, changed: r.changed}
	defer context.AfterFunc(r.Draining, r.leave)()
	stop := r.keep(ctx)
	t, err := w.wait(ctx)
	stop()
	if err != nil {
		if !errors.Is(err, dialect.ErrCancelled) && (errors.Is(err, turns.ErrGone) || errors.Is(err, turns.ErrLedger) || ctx.Err() != nil) {
			r.leave() // it goes on without this client, or can be had later
		}
		return nil, err
	}
	result, err := r.finalResult(ctx, t)
	if err == nil && !result.IsError {
		w.opened()
	}
	r.mark(t.Events)
	return result, err
}

// finalResult is the final response of a request.
func (c *call) finalResult(ctx context.Context, t *tasks.Task) (*content.Result, error) {
	if t.Status == tasks.Cancelled {
		return nil, wire.NewError(wire.CodeInvalidRequest, "the request was cancelled, and what it had done is undone")
	}
	return (&waiter{call: c}).outcome(ctx, t)
}

// leave ends the reader without an answer.
func (r *reader) leave() { r.Way.(dialect.Leaver).Leave() }

// changed leaves if another reader has taken over.
func (r *reader) changed(t *tasks.Task) {
	if kept := resumptionOf(t.Note); t.Rev >= r.rev && kept != nil && kept.Reader != r.name {
		r.leave()
	}
}

// mark has events from now on say how much was told.
func (r *reader) mark(told uint64) {
	if w, ok := r.Way.(*way); ok {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.call.mark, w.call.task = markOf(r.task, told), r.task
	}
}

// notes is the way of what a task has told: the mark counts it already.
type notes struct {
	*way
	mark string // the waiter passes one on at a time
}

func (n *notes) Notify(method string, params json.RawMessage) {
	n.stream.addMarked(n.mark, eventNote, wire.AppendCall(nil, 0, method, params))
}

// passing marks the event that is being passed on, and then those that come after it.
func (r *reader) passing(told uint64) (passed func()) {
	if r.notes == nil {
		return func() {}
	}
	r.notes.mark = markOf(r.task, told)
	return func() { r.mark(told) }
}

// questionID gives a question the same id on each stream, so that its answer is welcome on
// whichever comes after the one where it was asked.
func (r *reader) questionID(step string) uint64 {
	sum := sha256.Sum256([]byte("question of task " + r.task + " " + step))
	return leastQuestion + binary.BigEndian.Uint64(sum[:])%leastQuestion
}

// awayTime is how long a reader keeps what it has for a client that is gone, which may come back
// for its stream. Afterwards it can only resume the request.
const awayTime = time.Minute

// keep shows that the client is there, as long as it is, until stop is called.
func (r *reader) keep(ctx context.Context) (stop func()) {
	every := time.Duration(r.maxWait) * time.Second / 3
	patience := (&resumption{MaxWait: r.maxWait}).patience()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(min(every, awayTime/4))
		defer tick.Stop()
		renewed, there := time.Now(), time.Now()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			now := time.Now()
			switch w, streams := r.Way.(*way); {
			case !streams || w.carried():
				there = now
			case r.name != "" && now.Sub(there) > awayTime:
				r.leave()
			}
			if there == now && now.Sub(renewed) >= every {
				within, cancel := context.WithTimeout(ctx, every)
				_, err := r.Tasks.Renew(within, r.Principal, r.task, patience, nil)
				cancel()
				if err == nil {
					renewed = now
				}
			}
		}
	}()
	return func() { close(over); <-ended }
}

// Leave implements [dialect.Leaver].
func (w *way) Leave() { w.call.cancel(dialect.ErrLeft) }

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
