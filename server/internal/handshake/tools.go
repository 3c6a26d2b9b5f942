package handshake

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/tasks2025"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// toolsCall answers tools/call.
func (c *call) toolsCall(ctx context.Context) (json.RawMessage, error) {
	var name, arguments, task, next, meta jsontext.Value // next and meta may have the token of a next part
	for member, v := range jsonview.Members(c.Message.Params) {
		switch string(member) {
		case "name":
			name = v
		case "arguments":
			arguments = v
		case "task":
			task = v
		case "resumeToken":
			next = v
		case "_meta":
			meta = v
		}
	}
	tool, ok := jsonview.String(name)
	if !ok && name != nil && name.Kind() != 'n' {
		return nil, wire.WrongParam("/name")
	}
	t, _, err := c.Tool(tool, arguments)
	if err != nil {
		return nil, err
	}
	if c.Client == nil && c.Guest != nil { // a foreign transport has none that could be used instead
		if rerr := c.Guest.Refuse(t, c.caller(c.peer, "")); rerr != nil {
			return nil, rerr
		}
	}
	var part *dialect.Resumed
	args := json.RawMessage(arguments)
	if t.Yields || next != nil || jsonview.Get(meta, dialect.ResumeTokenMember) != nil {
		read, rerr := dialect.ReadResumed(c.Message.Params, t, arguments)
		if rerr != nil {
			return nil, rerr
		}
		part, args = &read, json.RawMessage(read.Arguments)
	}
	if c.Tasks != nil && c.Client == nil && c.offersTasks(c.peer) { // a foreign transport offers none
		asTask, ttl, rerr := tasks2025.Wanted(c.TaskMode(t), task)
		switch {
		case rerr != nil:
			return nil, rerr
		case asTask:
			return c.createTask(ctx, t, args, ttl)
		}
	}
	out, err := c.drive(ctx, t, args, part)
	if part != nil {
		if rerr := part.Refused(&out, err); rerr != nil {
			return nil, rerr
		}
	}
	if err == nil && out.Yielded != nil {
		b, err := wire.Marshal(c.peer.revision.Result(c.Part(&out, part)))
		if err != nil {
			return nil, err
		}
		return append(dialect.AppendNextToken(b[:len(b)-1], out.Token), '}'), nil
	}
	return c.toolResult(out, err)
}

// toolResult is the response to a call of a tool.
func (c *call) toolResult(out turns.End, err error) (json.RawMessage, error) {
	result := out.Result
	if err != nil {
		if result = c.stopped(err); result == nil {
			return nil, err
		}
	}
	return dialect.AppendToolResult(nil, c.peer.revision.Result(result))
}

// drive runs a saga to its end, with the client at hand.
func (c *call) drive(ctx context.Context, t *engine.Program, args json.RawMessage, part *dialect.Resumed) (turns.End, error) {
	if c.Tasks != nil && c.isTask(t) {
		return c.callTask(ctx, t, args)
	}
	if c.Tasks != nil && c.post != nil {
		c.post.stream.settle("") // no other replica can continue it
	}
	q := c.Turn(turns.Held)
	q.Program, q.Arguments, q.Client = t, args, c.features
	if resumed := part != nil && part.Turn(&q, turns.Held); !resumed && c.TakesKeys {
		var rerr *wire.Error
		if q.IdempotencyKey, rerr = c.IdempotencyKey(c.Exchange); rerr != nil {
			return turns.End{}, rerr
		}
	}
	asker := &client{call: c}
	out, err := c.Turns.Drive(ctx, q, asker)
	if err == nil && (out.Result == nil || !out.Result.IsError) {
		c.completed(asker.links.accepted)
	}
	return out, err
}

// stopped turns an end that the caller of a tool should read about into a result.
func (c *call) stopped(err error) *content.Result {
	var lacking *engine.UnsupportedError
	var rejected *tokens.Rejected
	var text string
	switch {
	case errors.As(err, &lacking):
		text = c.lacks(lacking)
	case errors.As(err, &rejected):
		text = "The call took too long to answer, or the server was changed meanwhile. Call the tool again."
	default:
		return nil
	}
	r := content.Resultf("%s", text)
	r.IsError = true
	return r
}

// lacks says what the client would have to be able to do.
func (c *call) lacks(e *engine.UnsupportedError) string {
	what := fmt.Sprintf("%q cannot be used", e.Tool)
	if e.StepID != "" {
		what = fmt.Sprintf("%q cannot ask %q", e.Tool, e.StepID)
	}
	if c.Way == nil {
		return what + ": the request does not accept text/event-stream, so the client cannot be asked"
	}
	lacking := e.Needs.Without(c.Turns.Features(c.features))
	if unknown := lacking.Without(c.peer.revision.Has()); unknown != (steps.Features{}) {
		return fmt.Sprintf("%s: the client's protocol version %v does not have %v", what, c.peer.revision, unknown)
	}
	return fmt.Sprintf("%s: this client has not declared %v", what, lacking)
}

// client asks the client by requests.
type client struct {
	*call
	links links
}

func (c *client) Ask(ctx context.Context, asked []steps.Step) ([]steps.Answer, error) {
	if c.peer.answering.Err() != nil {
		return nil, context.Cause(c.peer.answering)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.peer.answering, func() { cancel(context.Cause(c.peer.answering)) })()
	answers := make([]steps.Answer, len(asked))
	errs := make([]error, len(asked))
	var all sync.WaitGroup
	for i, step := range asked {
		method, params, err := stepRequest(c.peer.revision, step, &c.links)
		if err != nil {
			cancel(err)
			errs[i] = err
			break
		}
		call := func() {
			answers[i], errs[i] = c.Way.Call(ctx, method, params)
			if errors.Is(errs[i], turns.ErrLate) {
				answers[i], errs[i] = steps.Answer{}, nil
			}
		}
		if i == len(asked)-1 {
			call()
		} else {
			all.Go(call)
		}
	}
	all.Wait()
	if len(c.links.ids) > 0 {
		for i, s := range asked {
			c.links.answered(s.ID, answers[i])
		}
	}
	return answers, errors.Join(errs...)
}

// stepRequest is the request that asks the client for a step, in the form of its
// revision.
func stepRequest(r revision.Revision, s steps.Step, links *links) (method string, params json.RawMessage, err error) {
	params = s.Params
	switch {
	case s.Kind == steps.Elicitation && s.Needs.Has(steps.Features{Links: true}):
		params = links.open(s)
	case r < revision.November2025:
		params, err = r.Question(s)
	}
	return dialect.RequestMethods[s.Kind], params, err
}

// links are the pages that a call has sent the user to. From 2025-11-25 on each has
// an id, and the client learns when what was to be done there is done (MCP
// 2025-11-25, client/elicitation, completion notifications). What happens on a page
// the server need not know; but when the call has succeeded, it is done.
type links struct {
	id       string            // that of the next, if it is not to be found anew
	ids      map[string]string // of the steps asked, by step id
	accepted []string
}

// open adds the id to the parameters of a request in URL mode.
func (l *links) open(s steps.Step) json.RawMessage {
	id := cmp.Or(l.id, rand.Text())
	if l.ids == nil {
		l.ids = make(map[string]string)
	}
	l.ids[s.ID] = id
	out := append(jsontext.Value(nil), s.Params[:len(s.Params)-1]...) // compact: ends with the brace
	return append(wire.AppendString(append(out, `,"elicitationId":`...), id), '}')
}

// answered notes whether the user has agreed to open the page of a step, if that is one.
func (l *links) answered(step string, a steps.Answer) {
	if id := l.ids[step]; id != "" && jsonview.Is(jsonview.Get(a.Result, "action"), "accept") {
		l.accepted = append(l.accepted, id)
	}
}

// completed tells the client that what its user was to do on these pages is done.
func (c *call) completed(pages []string) {
	for _, id := range pages {
		c.Way.Notify("notifications/elicitation/complete", append(wire.AppendString([]byte(`{"elicitationId":`), id), '}'))
	}
}

// linkID is the id of a page that a task's question sends the user to: each replica finds the same.
func linkID(task, step string) string {
	sum := sha256.Sum256([]byte("page of task " + task + " " + step))
	return base32.StdEncoding.EncodeToString(sum[:16])[:26]
}

// way is the way to the client of a request that was POSTed: the request's stream.
type way struct {
	*session
	stream *stream
	call   *sessionCall
}

func (w *way) Notify(method string, params json.RawMessage) {
	w.stream.addMarked(w.mark(), eventNote, wire.AppendCall(nil, 0, method, params))
}

func (w *way) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	answer := make(chan steps.Answer, 1)
	asked := &question{call: w.call, answer: answer}
	w.mu.Lock()
	if w.call.asking == 0 { // what the call was answered before is in use no longer
		w.held -= w.call.answers
		w.call.answers = 0
	}
	w.call.asking++
	id, mark := w.questionID(), w.call.mark
	w.waiting[id] = asked
	w.mu.Unlock()
	number := w.stream.addMarked(mark, eventRequest, wire.AppendCall(nil, id, method, params))
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		// A client that reads on after a break must not ask its user what needs no answer any more.
		w.stream.drop(func(e streamEvent) bool { return e.number == number })
		w.call.asking--
		if w.waiting[id] == asked {
			delete(w.waiting, id)
		}
	}()
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		w.Notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), context.Cause(ctx)))
		return steps.Answer{}, context.Cause(ctx)
	}
}

func (w *way) Hangup(retry time.Duration) {
	if w.revision >= revision.November2025 { // others cannot resume
		w.stream.carriedBy(nil, retry)
	}
}

// KeepOpen implements [dialect.Way]: nothing of these revisions is without an end.
func (*way) KeepOpen() (<-chan struct{}, *wire.Error) { return nil, wire.NotFound() }
