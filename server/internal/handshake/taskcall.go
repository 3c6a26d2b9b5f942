package handshake

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"math"
	mathrand "math/rand/v2"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// isTask reports whether a call's work is a task, so that any replica can continue it. What yields is read part by part.
func (c *call) isTask(t *engine.Program) bool {
	mode := c.TaskMode(t)
	return mode == engine.TasksRequired || !t.Yields && (c.Client == nil || mode == engine.TasksOptional)
}

// callTask calls a program for a client that waits for the result. The work is a task, so it outlives the connection and the server;
// a call with the same idempotency key waits for the same. What ends soon and has done nothing leaves nothing behind.
func (c *call) callTask(ctx context.Context, t *engine.Program, args json.RawMessage) (end turns.End, err error) {
	start := tasks.Start{Account: c.LedgerAccount(c.Caller.Session), AtOnce: true, Delay: streamDelay, Keep: callKeep, Patience: patienceFor(callWait)}
	if start.Request, err = c.taskRequest(t, args); err != nil {
		return end, err
	}
	keyed := start.Request.IdempotencyKey != ""
	byID := c.post != nil && !keyed // the id of the task is made of that of the request
	_, leaves := c.Way.(dialect.Leaver)
	byToken := leaves && c.canResume() // the client gets a token for the task, at once or when it takes long
	r := &reader{call: c, wait: callWait}
	if byToken {
		r.offerToken(&start)
	} else if byID { // the end of its session ends it, but not what a token resumes
		start.Session = c.post.agreed.session()
	}
	var note dialect.Note
	if byID || byToken {
		r.name = rand.Text() // of the requests that wait for a task, the last one counts
		note.Reader, note.MaxWait = r.name, int64(r.wait/time.Second)
	}
	var task *tasks.Task
	if byID {
		task, err = r.Start(ctx, &start, &note)
	} else {
		note.Progress = c.progressToken()
		start.Note, _ = wire.Marshal(note) // strings and checked JSON always encode
		task, err = c.Tasks.Start(ctx, start)
	}
	if err != nil {
		return end, err
	}
	if task.ID == "" {
		return *task.End, nil
	}
	if task, err = r.takePlace(ctx, task); err != nil {
		return end, err
	}
	if !byID && c.streams() && !task.Status.Ended() {
		if byToken { // in any session, so that a Last-Event-ID from another one is understood
			r.number = numberOfTask(task)
		}
		r.enroll(ctx, task.ID, byToken)
	}
	r.task = task.ID
	if r.token.Load() { // at once
		r.markPassed(0)
		if err := r.sendPolicy(); err != nil {
			return end, err
		}
	}
	return r.called(ctx, task, 0, keyed)
}

// offerToken prepares a call that a token resumes: from the start if it may be a task, else once it takes long.
func (r *reader) offerToken(start *tasks.Start) {
	t := start.Request.Program
	if r.TaskMode(t) == engine.TasksForbidden {
		r.resumes = time.Now().Add(resumeAfter)
		start.Keep = max(start.Keep, r.wait)
		return
	}
	r.token.Store(true)
	r.wait = resumeWait(t)
	start.Patience, start.Keep = patienceFor(r.wait), max(start.Keep, t.Tasks.Keep)
}

// takePlace makes r the reader of a task that may be that of a call made before.
func (r *reader) takePlace(ctx context.Context, task *tasks.Task) (*tasks.Task, error) {
	kept := dialect.NoteOf(task)
	switch {
	case r.name == "" && kept.Reader != "": // another call of the same key can be resumed: for as long as that says
		r.wait = time.Duration(kept.MaxWait) * time.Second
	case r.name != "" && kept.Reader != r.name: // the same call was made before
		return r.enter(ctx, task, 0)
	}
	return task, nil
}

// progressToken is the request's progressToken, if messages can be sent for it.
func (c *call) progressToken() jsontext.Value {
	if c.Notifier == nil {
		return nil
	}
	return c.Notifier.Token
}

// Start begins the task of a call under an id made of the call's, or finds it if the client has made the same call before.
func (r *reader) Start(ctx context.Context, start *tasks.Start, note *dialect.Note) (*tasks.Task, error) {
	a := r.post.agreed
	id, _ := wire.CanonicalID(r.Message.ID) // which is valid
	// A tool, a prompt and a resource may have the same name.
	note.Progress, note.ID, note.Digest = r.progressToken(), r.Message.ID, dialect.DigestCall(r.Message.Method+"\x00"+start.Request.Program.Name, start.Request.Arguments)
	for n := uint64(0); ; n++ {
		nth := n
		if n >= numberTries {
			nth = max(n, mathrand.Uint64())
		}
		r.number = a.numberOf(ofCall, id, nth)
		note.Number, start.ID = r.number, a.taskID(r.number)
		start.Note, _ = wire.Marshal(note) // strings and checked JSON always encode
		task, err := r.Tasks.Start(ctx, *start)
		if errors.Is(err, tasks.ErrExists) {
			if task, err = r.sameCall(ctx, id, note.Digest); task == nil && err == nil {
				continue // the client uses ids again
			}
			return task, err
		}
		if err == nil && task.ID != "" && n >= numberTries { // a cancellation does not find it by its number
			if err := r.RememberRequest(ctx, r.Principal, a.session(), r.Message.ID, task.ID); err != nil {
				r.Log.WarnContext(ctx, "other replicas cannot cancel a request", "error", err)
			}
		}
		return task, err
	}
}

// sameCall returns the task with the reader's number, if it is of the same call and was under way when this came; nil if there is
// none any more.
func (r *reader) sameCall(ctx context.Context, id string, digest []byte) (*tasks.Task, error) {
	found, err := r.findReading(ctx, r.post.agreed, r.Principal, r.number)
	if err != nil || found == nil {
		return nil, err
	}
	t := found.task
	if t.Status.Ended() && t.Now.Sub(t.Updated) >= time.Since(r.post.call.came) {
		return nil, nil
	}
	if was, _ := wire.CanonicalID(found.ID); was != id || !bytes.Equal(dialect.NoteOf(t).Digest, digest) {
		if t.Status.Ended() || found.askedElsewhere() { // that was answered, or the client does not know its own requests
			return nil, nil
		}
		return nil, wire.NewError(wire.CodeInvalidRequest, errIDInUse.Error())
	}
	return t, nil
}

// called waits for the end of a call's task. keyed: the client may make the same call again, or resume it.
func (r *reader) called(ctx context.Context, task *tasks.Task, seen uint64, keyed bool) (end turns.End, err error) {
	if !r.token.Load() {
		ttl := r.Turns.Codec.Options().TTL // as in turns.Drive
		r.late = ttl - ttl/10
	}
	r.once = !keyed
	if task, err = r.read(ctx, task, seen); err == nil {
		return r.outcome(ctx, task)
	}
	if r.givesUp(ctx, err, keyed) {
		if task, err = r.CancelCall(ctx, r.Principal, r.task, err); task != nil {
			return r.outcome(context.WithoutCancel(ctx), task)
		}
	}
	var lacking *engine.UnsupportedError
	switch resumed := r.Message.Method == resumeMethod; {
	case errors.Is(err, tasks.ErrNotFound) && resumed:
		err = errResume
	case errors.Is(err, tasks.ErrNotFound):
		err = wire.NewError(wire.CodeInternalError, "what the server remembered of this call is gone: find out what it has done, and begin again")
	case errors.As(err, &lacking) && resumed: // another session of the client's may be able to
		err = wire.NewError(wire.CodeInvalidRequest, r.lacks(lacking)+"; resume the request with a client that can be asked")
	}
	return end, err
}

// givesUp reports whether no client comes back for the result of a call, whose wait has failed with
// err: the client has cancelled it or ended its session, or it reads that it is to call again, and
// its call will not be known again. A client that is only gone may come back, or have sent the
// same request elsewhere.
func (r *reader) givesUp(ctx context.Context, err error, keyed bool) bool {
	switch {
	case errors.Is(err, dialect.ErrCancelled), r.Client != nil && ctx.Err() != nil:
		return true
	case keyed:
		return false
	case errors.As(err, new(*engine.UnsupportedError)):
		return true
	case r.token.Load() || r.post != nil && r.post.isLeft():
		return false
	}
	return errors.Is(err, dialect.ErrStopping) || errors.Is(err, dialect.ErrSessionEnded)
}

// taskRequest is what a task begins with.
func (c *call) taskRequest(t *engine.Program, args json.RawMessage) (q turns.Request, err error) {
	q = c.Turn(turns.Held)
	q.Program, q.Arguments, q.Client, q.Notifier = t, args, c.features, nil
	var rerr *wire.Error
	if q.IdempotencyKey, rerr = c.IdempotencyKey(c.Exchange); rerr != nil {
		return q, rerr
	}
	return q, nil
}

// outcome is what the call of a task that has ended has for a result, which begins with all
// that the tool has yielded.
func (r *reader) outcome(ctx context.Context, t *tasks.Task) (end turns.End, err error) {
	defer r.markPassed(t.Events + 1) // who has what comes next has the response
	switch {
	case t.Status == tasks.Failed:
		end.Result, err = r.failure(ctx, t)
		return end, err
	case t.Status == tasks.Cancelled && t.Final && r.canResume() && r.Message.Method != resultMethod:
		return end, wire.NewError(wire.CodeInvalidRequest, "the request was cancelled, but some of what it had done is final, and not undone")
	case t.Status == tasks.Cancelled && r.canResume() && r.Message.Method != resultMethod:
		return end, wire.NewError(wire.CodeInvalidRequest, "the request was cancelled, and what it had done is undone")
	}
	if end = *t.End; end.Result != nil { // else it is of a prompt or a resource
		if end.Result, err = r.TaskResult(ctx, r.Principal, t); err != nil {
			return end, err
		}
		if t.Status == tasks.Cancelled { // it is not what was called for
			end.Result.IsError = true
		}
	}
	if note := dialect.NoteOf(t); r.Way != nil && (end.Result == nil || !end.Result.IsError) {
		for _, step := range note.Accepted {
			r.visited(t.ID, step)
		}
	}
	return end, nil
}

// failure is how a call whose task has failed ends: with a result for the caller of the tool,
// where that can do something about it.
func (c *call) failure(ctx context.Context, t *tasks.Task) (*content.Result, error) {
	stopped := c.stopped(t.Err)
	failed, disclosed := errors.AsType[*tasks.FailedError](t.Err)
	switch {
	case t.Program != nil && t.Program.Kind != engine.KindTool:
		if stopped != nil || errors.Is(t.Err, saga.ErrNotFound) {
			return nil, t.Err
		}
	case stopped != nil:
		return stopped, nil
	case disclosed:
		return dialect.Stopped(nil, failed.Text), nil
	}
	return nil, c.TaskFailure(ctx, t)
}

// A call that is asked elsewhere is not followed by its reader, an [elsewhere.Request]: package elsewhere waits for its task. But
// any replica finds that by its number (requestkey.go), and answers a client that comes back with Last-Event-ID. Cancellations
// and ends of sessions reach the process that holds the call; what none holds any more belongs to the form or the page that is
// open, and not to the request.

// askElsewhere answers a call whose client cannot be asked. number is that of a request which is read on; 0 is a new one.
func (c *call) askElsewhere(ctx context.Context, q *elsewhere.Call, number uint64) (json.RawMessage, error) {
	r := &reader{call: c, number: number}
	if c.Tasks != nil && c.post != nil {
		q.Request = r
	}
	result, err := c.elsewhere.Call(ctx, c.Exchange, q)
	r.Passed(math.MaxInt64) // who has what comes next has the response
	return c.toolResult(result, err)
}

// Held implements [elsewhere.Request].
func (r *reader) Held(ctx context.Context, t *tasks.Task) {
	if r.number == 0 && r.streams() {
		r.enroll(ctx, t.ID, true)
	}
	r.held = true
	r.markPassed(t.Events)
}

// Passed implements [elsewhere.Request].
func (r *reader) Passed(event uint64) {
	if r.held {
		r.markPassed(event)
	}
}

// askedElsewhere reports whether a task is that of a call that is asked elsewhere.
func askedElsewhere(t *tasks.Task) bool {
	n := dialect.NoteOf(t)
	return n.Elsewhere && !n.Task
}

// askedElsewhere reports whether the request is a call that is asked elsewhere.
func (r *reading) askedElsewhere() bool { return r.Method == callMethod && askedElsewhere(r.task) }
