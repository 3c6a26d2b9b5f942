package handshake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Resumable requests (SEP-975): a client that declares resumableRequests gets a token. With requests/resume, which has the id of a
// request and continues as that would have, it resumes the request in any session of the same principal when its connection is gone,
// or the server. With requests/getStatus it asks how the request is.

const (
	resumeMethod = "requests/resume"
	statusMethod = "requests/getStatus"
	policyMethod = "notifications/requests/resumePolicy"
)

const (
	// maxWait is for how long a client may be away at most; less if the tool's results are kept for less.
	maxWait = time.Hour
	// resumeAfter is how long a request takes until it can be resumed, unless it is of a tool that may be a task.
	resumeAfter = 2 * time.Second
	// maxResumeToken is the longest resume token that is looked at.
	maxResumeToken = 8 << 10
)

// errResume is all that is said of a token that does not open the request, whatever the reason.
var errResume = wire.NewError(wire.CodeInvalidParams, "the resume token is not one of this request, or not any more")

// ticket is what a resume token says. It is sealed, and bound to a principal.
type ticket struct {
	// Task is the task that the request waits for.
	Task string `json:"t"`
	// ID is the id of the request, in its canonical form.
	ID string `json:"i"`
	// Token is the request's progressToken.
	Token jsontext.Value `json:"p,omitzero"`
}

// resumeWait is for how long a client may be away from a call of the tool.
func resumeWait(t *engine.Program) time.Duration {
	wait := maxWait
	for _, d := range []time.Duration{t.Tasks.Keep, t.Tasks.TTL} {
		if d > 0 {
			wait = min(wait, d)
		}
	}
	return max(wait.Truncate(time.Second), time.Second)
}

func (c *call) resumeBinding() tokens.Binding {
	return tokens.Binding{Purpose: sessionid.ResumePurpose, Principal: c.Principal}
}

// sendPolicy tells the client how to resume its call.
func (r *reader) sendPolicy() error {
	t := ticket{Task: r.task, Token: r.progressToken()}
	t.ID, _ = wire.CanonicalID(r.Message.ID) // which is valid
	state, _ := wire.Marshal(t)              // strings and checked JSON always encode
	token, err := r.Turns.Codec.Seal(r.resumeBinding(), r.Turns.Now(), &tokens.Contents{State: state})
	if err != nil {
		return err
	}
	b := fmt.Appendf(nil, `{"requestId":%s,"resumeToken":"%s","maxWait":%d}`, r.Message.ID, token, int64(r.wait/time.Second))
	if r.post == nil {
		r.Way.Notify(policyMethod, b)
		return nil
	}
	// Not a note: those are left out when there are too many.
	r.post.stream.add(eventRequest, wire.AppendCall(nil, 0, policyMethod, b))
	return nil
}

// canResume reports whether the client can resume requests here.
func (c *call) canResume() bool {
	return c.Tasks != nil && c.peer != nil && c.peer.Resumable && c.Client == nil
}

// readResume reads which request a request is about, or fails with [errResume]. When a token ends, its task says.
func (c *call) readResume() (t ticket, err error) {
	var p struct {
		RequestID   jsontext.Value `json:"requestId"`
		ResumeToken *string        `json:"resumeToken"`
	}
	if !c.canResume() {
		return t, wire.NotFound()
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return t, rerr
	}
	switch {
	case p.ResumeToken == nil:
		return t, wire.NewError(wire.CodeInvalidParams, "params.resumeToken is missing: "+policyMethod+" has it")
	case c.Message.Method == resumeMethod:
		p.RequestID = c.Message.ID
	case p.RequestID == nil:
		return t, wire.NewError(wire.CodeInvalidParams, "params.requestId is missing: it is the id of the request")
	}
	if len(*p.ResumeToken) > maxResumeToken {
		return t, errResume
	}
	x, _, err := c.Turns.Codec.OpenAnyTime(c.resumeBinding(), c.Turns.Now(), *p.ResumeToken)
	said, valid := wire.CanonicalID(p.RequestID)
	if err != nil || json.Unmarshal(x.State, &t) != nil || !valid || said != t.ID {
		return t, errResume
	}
	return t, nil
}

// resume answers requests/resume as the request that it resumes.
func (c *call) resume(ctx context.Context) (json.RawMessage, error) {
	t, err := c.readResume()
	if err != nil {
		return nil, err
	}
	if _, ok := c.Way.(dialect.Leaver); !ok {
		return nil, wire.NewError(wire.CodeInvalidRequest, "a request is resumed on a stream: accept text/event-stream")
	}
	r := &reader{call: c}
	r.token.Store(true)
	task, wait, err := c.ticketed(ctx, t)
	if r.wait = wait; err == nil {
		task, err = r.enter(ctx, task, c.hasSeen(task))
	}
	if err != nil {
		return nil, notResumed(err)
	}
	c.Notifier.Token = t.Token
	note := dialect.NoteOf(task)
	if c.post != nil {
		r.number = numberOfTask(task)
		if c.post.agreed.taskID(note.Number) != task.ID && !task.Status.Ended() {
			r.enroll(ctx, task.ID, true)
		}
	}
	end, err := r.called(ctx, task, note.Seen, true)
	return c.resultOf(task, end, err)
}

// requestStatus answers requests/getStatus. It shows that the client is there.
func (c *call) requestStatus(ctx context.Context) (json.RawMessage, error) {
	t, err := c.readResume()
	if err != nil {
		return nil, err
	}
	task, wait, err := c.ticketed(ctx, t)
	if err == nil {
		seen := c.hasSeen(task)
		task, err = c.Tasks.Renew(ctx, c.Principal, t.Task, patienceFor(wait), dialect.ChangeNote(func(n *dialect.Note) {
			n.Seen = max(n.Seen, seen)
		}))
	}
	if err != nil {
		return nil, notResumed(err)
	}
	status := "processing"
	if task.Status.Ended() {
		status = "completed"
		if task.Status == tasks.Completed { // its response need not be made to know that
		} else if _, err := (&reader{call: c, task: t.Task}).outcome(ctx, task); err != nil {
			status = "failed"
		}
	}
	asks := task.Status == tasks.InputRequired
	return fmt.Appendf(nil, `{"status":"%s","hasPendingMessage":%t,"hasInputRequest":%t}`, status, asks || dialect.NoteOf(task).Seen < task.Events, asks), nil
}

// ticketed returns the task of a ticket, if requests can be resumed that wait for it, and for how long their client may be away.
func (c *call) ticketed(ctx context.Context, t ticket) (*tasks.Task, time.Duration, error) {
	task, err := c.Tasks.Get(ctx, c.Principal, t.Task)
	if err != nil {
		return nil, 0, err
	}
	note := dialect.NoteOf(task)
	if note.Reader == "" {
		return nil, 0, errResume
	}
	return task, time.Duration(note.MaxWait) * time.Second, nil
}

func notResumed(err error) error {
	if errors.Is(err, tasks.ErrNotFound) {
		return errResume
	}
	return err
}

// hasSeen is the number of the last event of the task's log that the client has, as its Last-Event-ID says.
func (c *call) hasSeen(task *tasks.Task) uint64 {
	if last, ok := parseEventID(c.Header.Get("Last-Event-ID")); ok && last.number == numberOfTask(task) {
		return last.seen
	}
	return 0
}

// Last-Event-ID, at any replica (MCP 2025-11-25, basic/transports, resumability and redelivery).

// replyFromLog answers GET with the rest of a request whose stream is not here, from the log of its task.
func (d *handshake) replyFromLog(ctx context.Context, x *dialect.Exchange, r wire.Reply, s *session, last eventID, c *carrier) {
	found, err := (*reading)(nil), error(nil)
	if last.number != 0 && d.Tasks != nil {
		found, err = d.findReading(ctx, s.agreed, x.Principal, last.number)
	}
	switch {
	case err != nil:
		done(r, 0, nil, d.Translate(ctx, x.HTTPMethod, err))
		return
	case found == nil:
		r.Error(nil, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "there is nothing to resume after this Last-Event-ID, or no longer"))
		return
	}
	st := s.open(1, nil, true)
	st.shown = true // the client has an id from which it can resume
	defer s.carry(&st.carrier, c, 0)()
	rerr := d.begin(ctx, x, s, st, &wire.Message{ID: found.ID, Method: found.Method}, true, more, func(ctx context.Context, x *dialect.Exchange, post *way) ([]byte, *wire.Error) {
		if (found.task.Status.Ended() || found.askedElsewhere()) && last.seen > found.task.Events {
			return nil, nil // the client has the response
		}
		result, rerr := d.answer(ctx, x, s.peer, post, found.Token, func(c *call, ctx context.Context) (json.RawMessage, error) {
			return c.readOn(ctx, found, last.seen)
		})
		return wire.AppendResponse(nil, found.ID, result, rerr), nil
	})
	if rerr != nil { // it must not look like the answer to the request, which is under way
		s.forget(st)
		r.Error(nil, wire.TryAgain(rerr.Message))
		return
	}
	st.pump(ctx, r, c)
}

// readOn follows what another request has followed before, and answers as that would have.
func (c *call) readOn(ctx context.Context, found *reading, seen uint64) (json.RawMessage, error) {
	task, resumes := found.task, found.Alone && c.canResume()
	keyed := dialect.NoteOf(task).Number == 0 || found.Method != callMethod
	if found.askedElsewhere() {
		q := &elsewhere.Call{Program: task.Program, Found: task, After: seen}
		if keyed { // the client has begun it with a key, or has its token
			q.Token = found.TaskID
		}
		return c.askElsewhere(ctx, q, found.number)
	}
	r := &reader{call: c, number: found.number, wait: callWait}
	switch p := task.Program; {
	case found.Method == resultMethod:
		return c.readResult(ctx, r, task, seen)
	case found.Method == resumeMethod, resumes && p != nil && c.TaskMode(p) != engine.TasksForbidden:
		r.token.Store(true)
	case resumes:
		r.resumes = task.Created.Add(resumeAfter)
	}
	if found.Alone {
		var err error
		if task, err = r.enter(ctx, task, 0); err != nil {
			return nil, err
		}
	}
	end, err := r.called(ctx, task, seen, keyed)
	return r.resultOf(task, end, err)
}

// resultOf is the response to the request that has begun a task.
func (c *call) resultOf(task *tasks.Task, end turns.End, err error) (json.RawMessage, error) {
	kind := engine.KindTool
	switch { // what has ended can be of a program that this server does not have
	case task.Program != nil:
		kind = task.Program.Kind
	case end.Messages != nil:
		kind = engine.KindPrompt
	case err == nil && end.Result == nil:
		kind = engine.KindResource
	}
	if kind == engine.KindTool {
		return c.toolResult(end.Result, err)
	}
	return c.plainResult(kind, "", end, err)
}
