package handshake

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Resumable requests (SEP-975): a client that declares resumableRequests is told by which token it
// can resume a request when its connection is gone, or this server: with requests/resume, which
// has the id of the request and goes on as that would have, in any session of the same principal.
// It is one more way to a call that any replica can go on with anyway (see numbers.go). Of calls of
// tools that may be tasks clients are told it first of all, and of any other request that runs code
// of authors once it has taken as long as resumeAfter: most are over by then.

const (
	resumeMethod = "requests/resume"
	policyMethod = "notifications/requests/resumePolicy"
	// maxWait is for how long a client may be away at most; tools whose results are kept for less
	// have less.
	maxWait = time.Hour
	// resumeAfter is how long a request takes until it can be resumed whatever it is of.
	resumeAfter = 2 * time.Second
	// maxResume is the longest resume token that is looked at.
	maxResume = 8 << 10
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
	// URI is what the request reads, if that is a resource.
	URI string `json:"u,omitzero"`
}

// canResume reports whether the client can resume requests here.
func (c *call) canResume() bool {
	return c.Tasks != nil && c.peer != nil && c.peer.resumable && c.Client == nil
}

// waitOf is for how long a client may be away from a call of the tool.
func waitOf(t *engine.Program) time.Duration {
	wait := maxWait
	for _, d := range []time.Duration{t.Tasks.Keep, t.Tasks.TTL} {
		if d > 0 {
			wait = min(wait, d)
		}
	}
	return max(wait.Truncate(time.Second), time.Second)
}

// sealTicket makes a resume token.
func (r *reader) sealTicket(task string) (string, error) {
	id, ok := wire.CanonicalID(r.Message.ID)
	if !ok {
		return "", errors.New("the request has no id")
	}
	t := ticket{Task: task, ID: id, URI: r.uri}
	if r.Notifier != nil {
		t.Token = r.Notifier.Token
	}
	state, err := wire.Marshal(t)
	if err != nil {
		return "", err
	}
	return r.Turns.Codec.Seal(tokens.Binding{Purpose: sessionid.ResumePurpose, Principal: r.Principal}, r.Turns.Now(), &tokens.Contents{State: state})
}

// openTicket reads a resume token. When it ends, its task says.
func (d *handshake) openTicket(principal, token string) (t ticket, ok bool) {
	if len(token) > maxResume {
		return t, false
	}
	x, _, err := d.Turns.Codec.OpenAnyTime(tokens.Binding{Purpose: sessionid.ResumePurpose, Principal: principal}, d.Turns.Now(), token)
	return t, err == nil && json.Unmarshal(x.State, &t) == nil
}

// ticketOf opens the token of a request that is about the one with that id.
func (d *handshake) ticketOf(principal, token string, id jsontext.Value) (ticket, bool) {
	t, ok := d.openTicket(principal, token)
	if !ok {
		return t, false
	}
	said, ok := wire.CanonicalID(id)
	return t, ok && said == t.ID
}

// resumeParams are those of both requests.
type resumeParams struct {
	RequestID   jsontext.Value `json:"requestId"`
	ResumeToken *string        `json:"resumeToken"`
}

// readResume reads which request a request is about.
func (c *call) readResume(resumes bool) (t ticket, err error) {
	if !c.canResume() {
		return t, wire.NotFound()
	}
	var p resumeParams
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return t, rerr
	}
	switch {
	case p.ResumeToken == nil:
		return t, wire.NewError(wire.CodeInvalidParams, "params.resumeToken is missing: "+policyMethod+" has it")
	case resumes:
		p.RequestID = c.Message.ID
	case p.RequestID == nil:
		return t, wire.NewError(wire.CodeInvalidParams, "params.requestId is missing: it is the id of the request")
	}
	t, ok := c.ticketOf(c.Principal, *p.ResumeToken, p.RequestID)
	if !ok {
		return t, errResume
	}
	return t, nil
}

// renew shows that the client of a request that can be resumed is there.
func (c *call) renew(ctx context.Context, t ticket) (*tasks.Task, *resumption, error) {
	task, err := c.Tasks.Get(ctx, c.Principal, t.Task)
	if err == nil {
		kept := resumptionOf(task)
		if kept == nil {
			return nil, nil, errResume
		}
		confirm := c.confirm(t.Task)
		task, err = c.Tasks.Renew(ctx, c.Principal, t.Task, patienceFor(kept.wait()), changeNote(func(n *taskNote) {
			if n.Resumption != nil {
				confirm(n.Resumption)
			}
		}))
	}
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil, nil, errResume
	case err != nil:
		return nil, nil, err
	}
	return task, resumptionOf(task), nil
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
	task, err := c.Tasks.Get(ctx, c.Principal, t.Task)
	if err == nil && resumptionOf(task) == nil {
		return nil, errResume
	}
	r := &reader{call: c, uri: t.URI}
	r.token.Store(true)
	if err == nil {
		task, err = r.enter(ctx, task, c.confirm(t.Task))
	}
	switch {
	case errors.Is(err, tasks.ErrNotFound):
		return nil, errResume
	case err != nil:
		return nil, err
	}
	c.Notifier.Token = t.Token
	note := noteOf(task)
	if c.post != nil {
		r.number = numberOfTask(task)
		if own := note.Call; (own == nil || !bytes.Equal(own.Session, c.post.agreed.id[:])) && !task.Status.Ended() {
			r.enroll(ctx, task.ID, true)
		}
	}
	return r.resumed(ctx, task, note.Resumption.Seen)
}

// resumed is the response to a request that resumes a call.
func (r *reader) resumed(ctx context.Context, task *tasks.Task, seen uint64) (json.RawMessage, error) {
	task, err := r.read(ctx, task, seen)
	var lacking *engine.UnsupportedError
	switch {
	case errors.Is(err, dialect.ErrCancelled):
		r.giveUp(ctx, r.task)
		return nil, err
	case errors.As(err, &lacking): // another session of the client's may be able to
		return nil, wire.NewError(wire.CodeInvalidRequest, r.lacks(lacking)+"; resume the request with a client that can be asked")
	case errors.Is(err, tasks.ErrNotFound):
		return nil, errResume
	case err != nil:
		return nil, err
	}
	result, err := r.w.finalResult(ctx, task)
	return r.resultOf(task, result, err)
}

// resumesLater has the client told how to resume its request, if that takes long, until stop is
// called.
func (r *reader) resumesLater() (stop func()) {
	if r.resumes.IsZero() || r.token.Load() {
		return func() {}
	}
	told := make(chan struct{})
	t := time.AfterFunc(max(0, time.Until(r.resumes)), func() {
		defer close(told)
		r.token.Store(true) // before the client reads it
		if r.sendPolicy(r.task) != nil {
			r.token.Store(false)
		}
	})
	return func() {
		if !t.Stop() {
			<-told // nothing comes after the response
		}
	}
}

// requestStatus answers requests/getStatus.
func (c *call) requestStatus(ctx context.Context) (json.RawMessage, error) {
	t, err := c.readResume(false)
	if err != nil {
		return nil, err
	}
	task, kept, err := c.renew(ctx, t)
	if err != nil {
		return nil, err
	}
	status := "processing"
	if task.Status.Ended() {
		status = "completed"
		if task.Status == tasks.Completed { // its response need not be made to know that
		} else if _, err := (&waiter{call: c, task: t.Task}).finalResult(ctx, task); err != nil {
			status = "failed"
		}
	}
	asks := task.Status == tasks.InputRequired
	pending := asks || task.Status.Ended() && kept.Seen < task.Events
	if !pending {
		if pending, err = c.hasMessage(ctx, t, kept.Seen); err != nil {
			return nil, err
		}
	}
	b := append([]byte(`{"status":"`), status...)
	b = strconv.AppendBool(append(b, `","hasPendingMessage":`...), pending)
	b = strconv.AppendBool(append(b, `,"hasInputRequest":`...), asks)
	return append(b, '}'), nil
}

// hasMessage reports whether the task has told anything after an event that the client would
// be told.
func (c *call) hasMessage(ctx context.Context, t ticket, after uint64) (bool, error) {
	for {
		events, err := c.Tasks.Events(ctx, c.Principal, t.Task, after, eventPage)
		if err != nil {
			return false, err
		}
		for i := range events {
			e := &events[i]
			if e.Progress != nil && t.Token != nil || e.Log != nil && e.Log.Level >= c.peer.level.Level() {
				return true, nil
			}
			after = e.N
		}
		if len(events) < eventPage {
			return false, nil
		}
	}
}

// Ids of the events of a resumable request end with a mark: how much of what its task has told
// was passed on with them and before. So a client that shows the last one that it has got
// (Last-Event-ID) does so to any replica.

func markOf(task string, told uint64) string {
	return "." + strconv.FormatUint(told, 10) + "." + taskTag(task)
}

// taskTag tells the marks of a task from those of others.
func taskTag(task string) string {
	sum := sha256.Sum256([]byte("event of task " + task))
	return hex.EncodeToString(sum[:4])
}

// confirm takes down what the client of a request shows to have got.
func (c *call) confirm(task string) func(*resumption) {
	id := c.Header.Get("Last-Event-ID")
	return func(r *resumption) {
		rest, tag, ok := cutLast(id, '.')
		if !ok || tag != taskTag(task) {
			return
		}
		_, digits, ok := cutLast(rest, '.')
		if told, err := strconv.ParseUint(digits, 10, 63); ok && err == nil {
			r.Seen = max(r.Seen, told)
		}
	}
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// takeOver ends the call that a request resumes or repeats, if that is still under way in its
// session here: two cannot have the same id. It returns the task of a call that is resumed.
func (d *handshake) takeOver(ctx context.Context, x *dialect.Exchange, s *session, m *wire.Message) (task string, rerr *wire.Error) {
	switch {
	case d.method(m).numbered && m.Method != resumeMethod && m.Method != resultMethod:
		s.endOlder(ctx, m.ID, func(old *sessionCall) bool { return sameCall(m, old.message) })
		return "", nil
	case m.Method != resumeMethod || !s.resumable:
		return "", nil
	}
	var p resumeParams
	if wire.DecodeParams(m.Params, &p) != nil || p.ResumeToken == nil {
		return "", nil
	}
	t, ok := d.ticketOf(x.Principal, *p.ResumeToken, m.ID)
	if !ok {
		return "", errResume // also where the id is in use
	}
	s.endOlder(ctx, m.ID, func(old *sessionCall) bool { return old.task == t.Task })
	return t.Task, nil
}

// endOlder ends the call with an id without an answer, if it is one that a request goes on with.
func (s *session) endOlder(ctx context.Context, id jsontext.Value, is func(*sessionCall) bool) {
	ctx, cancel := context.WithTimeout(ctx, takeOverTime)
	defer cancel()
	for {
		s.mu.Lock()
		old := s.calls[string(id)]
		ours := old != nil && is(old)
		s.mu.Unlock()
		if !ours {
			return
		}
		(&way{session: s, call: old}).Leave()
		select {
		case <-old.over:
		case <-ctx.Done():
			return
		}
	}
}

// takeOverTime is how long a request waits for the end of what it takes the place of.
const takeOverTime = 5 * time.Second
