package handshake

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/resumable"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// A client that comes back with Last-Event-ID reads on from the log of the task that its request waits for,
// at any replica (MCP 2025-11-25, basic/transports, resumability and redelivery).

// replyFromLog answers GET with the rest of a request whose stream is not here, or not any
// more.
func (d *handshake) replyFromLog(ctx context.Context, x *dialect.Exchange, r wire.Reply, s *session, last eventID) {
	if last.number == 0 || d.Tasks == nil {
		r.Error(nil, nothingToResume())
		return
	}
	found, err := d.findReading(ctx, s.agreed, x.Principal, last.number)
	switch {
	case err != nil:
		r.Error(nil, d.Translate(ctx, x.HTTPMethod, err))
		return
	case found == nil:
		r.Error(nil, nothingToResume())
		return
	}
	task, seen := found.task.ID, last.seen
	st := s.open(1, nil, true)
	reader := &streamReader{gone: make(chan struct{}), after: x.Header.Get("Last-Event-ID"), opening: markOf(last.number, seen)}
	defer st.carriedBy(reader, 0)()
	m := &wire.Message{ID: found.ID, Method: found.Method}
	respond := func(ctx context.Context, x *dialect.Exchange, p *peer, post *way) []byte {
		if found.task.Status.Ended() && seen > found.task.Events {
			return nil // the client has the response
		}
		c := d.newCall(x, p, post, found.Token)
		defer c.Notifier.Close()
		result, err := c.readOn(ctx, found, seen)
		var rerr *wire.Error
		if err != nil {
			rerr = c.refusal(ctx, err)
		}
		return wire.AppendResponse(nil, m.ID, result, rerr)
	}
	var rerr *wire.Error
	for range readOnTries { // another one may take the place that is free now
		s.endOlder(ctx, found.ID, func(old *sessionCall) bool { return old.task == task })
		if rerr = d.begin(ctx, x, s, st, m, true, task, respond); rerr == nil {
			break
		}
	}
	if rerr != nil { // it must not look like the answer to the request, which is under way
		s.forget(st)
		r.Error(nil, wire.TryAgain(rerr.Message))
		return
	}
	st.pump(ctx, r, reader)
}

// readOnTries is how often it is tried to read on, as several may at once.
const readOnTries = 5

// nothingToResume refuses an id that is no event's, or of a stream that is not kept.
func nothingToResume() *wire.Error {
	return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "there is nothing to resume after this Last-Event-ID, or no longer")
}

// readOn follows what another request has followed before, and answers as that would have.
func (c *call) readOn(ctx context.Context, found *reading, seen uint64) (json.RawMessage, error) {
	r := &reader{call: c, uri: found.URI, number: found.number, wait: callWait}
	if p := found.task.Program; found.Method == resumable.Method || p != nil && found.Alone && c.canResume() && c.TaskMode(p) != engine.TasksForbidden {
		r.token.Store(true)
	} else if found.Method != resultMethod && found.Alone && c.canResume() {
		r.resumes = found.task.Created.Add(resumable.After)
	}
	if noteOf(found.task) == nil || noteOf(found.task).Call == nil || found.Method != callMethod {
		r.alias = &found.alias
	}
	task := found.task
	if found.Method == resultMethod {
		return c.readResult(ctx, r, task, seen)
	}
	if found.Alone {
		var err error
		if task, err = r.enter(ctx, task, nil); err != nil {
			return nil, err
		}
	}
	if found.Method == resumable.Method {
		return r.resumed(ctx, task, seen)
	}
	out, err := r.called(ctx, task, seen, r.alias != nil)
	return r.resultOf(task, out, err)
}

// resultOf is the response to the request that has begun a task.
func (r *reader) resultOf(task *tasks.Task, out turns.End, err error) (json.RawMessage, error) {
	kind := engine.KindTool
	if task.Program != nil {
		kind = task.Program.Kind
	}
	switch { // what has ended can be of a program that this server does not have
	case out.Messages != nil || err != nil && kind == engine.KindPrompt:
		return r.promptResult(out, err)
	case err == nil && out.Result == nil, kind == engine.KindResource:
		return r.resourceResult(r.uri, out, err)
	}
	return r.toolResult(out, err)
}
