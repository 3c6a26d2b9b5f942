package handshake

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/inturn"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/apps"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

const callMethod = "tools/call"

func (c *call) toolsCall(ctx context.Context) (json.RawMessage, error) {
	q, err := c.readToolsCall(ctx)
	if err != nil {
		return nil, err
	}
	if q.asTask {
		return c.createTask(ctx, q.elsewhere, q.tool, json.RawMessage(q.part.Arguments), q.ttl)
	}
	if q.tool == nil {
		result, err := c.apps.Call(ctx, c.Exchange, q.part.Arguments)
		return c.toolResult(result, err)
	}
	if q.elsewhere != nil {
		return c.askElsewhere(ctx, q.elsewhere, 0)
	}
	out, err := c.drive(ctx, q.tool, json.RawMessage(q.part.Arguments), &q.part)
	return c.partResult(&q.part, &out, err)
}

// toolsCallRequest is what a client asks for by tools/call.
type toolsCallRequest struct {
	tool   *engine.Program // nil if it is that of the form in the host's window
	part   dialect.Resumed // its arguments, and where a result is read on
	asTask bool
	ttl    time.Duration
	// elsewhere is not nil if the client cannot be asked, or continues what has asked elsewhere.
	elsewhere *elsewhere.Call
}

// readToolsCall reads the request. It has returned when the call waits, which leaves the stack small.
func (c *call) readToolsCall(ctx context.Context) (*toolsCallRequest, error) {
	p, rerr := dialect.ReadParams(c.Message.Params, "name", "")
	if rerr != nil {
		return nil, rerr
	}
	if p.Name == apps.Tool && c.apps.Shows(c.Caller) {
		return &toolsCallRequest{part: dialect.Resumed{Arguments: p.Arguments}}, nil
	}
	t, _, err := c.Tool(ctx, p.Name, p.Arguments)
	if err != nil {
		return nil, err
	}
	if c.Client == nil && c.Guest != nil { // a foreign transport has none that could be used instead
		if rerr := c.Guest.Refuse(t, c.Caller); rerr != nil {
			return nil, rerr
		}
	}
	q := &toolsCallRequest{tool: t}
	task := jsontext.Value(jsonview.Get(c.Message.Params, "task"))
	wants := c.Caller.Tasks && task.Kind() != jsontext.KindInvalid && task.Kind() != 'n'
	if q.elsewhere, q.part, rerr = c.elsewhere.Read(c.Exchange, t, p.Arguments, wants); rerr != nil {
		return nil, rerr
	}
	if goesOn := q.elsewhere != nil && q.elsewhere.Token != "" && !wants; c.Caller.Tasks && !goesOn {
		q.asTask, q.ttl, rerr = taskWanted(c.TaskMode(t), task)
	}
	if rerr != nil {
		return nil, rerr
	}
	return q, nil
}

// partResult is the response to a call of a tool whose result may come in parts.
func (c *call) partResult(part *dialect.Resumed, out *turns.End, err error) (json.RawMessage, error) {
	if rerr := part.Refused(out, err); rerr != nil {
		return nil, rerr
	}
	if err == nil && out.Yielded != nil {
		b, err := wire.Marshal(c.peer.revision.Result(c.Part(out, part)))
		if err != nil {
			return nil, err
		}
		return append(dialect.AppendNextToken(b[:len(b)-1], out.Token), '}'), nil
	}
	return c.toolResult(out.Result, err)
}

// toolResult is the response to a call of a tool.
func (c *call) toolResult(result *content.Result, err error) (json.RawMessage, error) {
	if err != nil {
		if result = c.stopped(err); result == nil {
			return nil, err
		}
	}
	return dialect.ToolResult(c.peer.revision.Result(result))
}

// drive runs a saga to its end, with the client at hand.
func (c *call) drive(ctx context.Context, t *engine.Program, args json.RawMessage, part *dialect.Resumed) (turns.End, error) {
	if c.Tasks != nil && c.isTask(t) {
		return c.callTask(ctx, t, args)
	}
	return c.driveHere(ctx, t, args, part)
}

// driveHere is drive for a call that no other replica can continue. It is apart so that calls that are tasks, which wait for long,
// have no room for its request on their stacks.
func (c *call) driveHere(ctx context.Context, t *engine.Program, args json.RawMessage, part *dialect.Resumed) (turns.End, error) {
	if c.Tasks != nil && c.post != nil {
		c.post.stream.settle("")
	}
	q := c.Turn(turns.Held)
	q.Program, q.Arguments, q.Client = t, args, c.features
	if q.Unwanted = dialect.ErrCancelled; c.Client != nil {
		q.Unwanted = context.Canceled // all that such a transport says
	}
	resumed := part != nil && part.Turn(&q, turns.Asked)
	if !resumed {
		var rerr *wire.Error
		if q.IdempotencyKey, rerr = c.IdempotencyKey(c.Exchange); rerr != nil {
			return turns.End{}, rerr
		}
		if err := c.post.stay(q.IdempotencyKey); err != nil {
			return turns.End{}, err
		}
	}
	asker := &client{call: c}
	out, err := c.Turns.Drive(ctx, q, asker)
	if undone, ok := errors.AsType[*engine.UndoneError](err); ok && undone.Report != nil { // the client has no other token
		again := turns.End{Outcome: *engine.UndoneWith(undone.Report, "", true)}
		err = errors.Join(err, c.Turns.SealUndo(ctx, c.Principal, t, &again))
	}
	if err == nil && (out.Result == nil || !out.Result.IsError) {
		c.completed(asker.accepted)
	}
	return out, err
}

// stopped turns an end that the caller of a tool should read about into a result.
func (c *call) stopped(err error) *content.Result {
	if lacking, ok := errors.AsType[*engine.UnsupportedError](err); ok {
		return dialect.Stopped(err, c.lacks(lacking))
	}
	if errors.As(err, new(*tokens.Rejected)) {
		return dialect.Stopped(err, "The call took too long to answer, or the server was changed meanwhile. Call the tool again.")
	}
	return nil
}

// lacks says what the client would have to be able to do.
func (c *call) lacks(e *engine.UnsupportedError) string {
	what := fmt.Sprintf("%q cannot be used", e.Tool)
	if e.StepID != "" {
		what = fmt.Sprintf("%q cannot ask %q", e.Tool, e.StepID)
	}
	lacking := e.Needs.Without(c.Turns.Features(c.peer.Features))
	if c.Way == nil && lacking == (steps.Features{}) {
		return what + ": the request does not accept text/event-stream, or the server's middleware passes on no streams, so the client cannot be asked"
	}
	if unknown := lacking.Without(c.peer.revision.Has()); unknown != (steps.Features{}) {
		return fmt.Sprintf("%s: the client's protocol version %v does not have %v", what, c.peer.revision, unknown)
	}
	return fmt.Sprintf("%s: this client has not declared %v", what, lacking)
}

// client asks the client by requests.
type client struct {
	*call
	accepted []string // pages that the user has agreed to open
}

func (c *client) Ask(ctx context.Context, asked []steps.Step) ([]steps.Answer, error) {
	if c.Closing.Err() != nil {
		return nil, context.Cause(c.Closing)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.Closing, func() { cancel(context.Cause(c.Closing)) })()
	answers := make([]steps.Answer, len(asked))
	errs := make([]error, len(asked))
	pages := make([]string, len(asked))
	var all sync.WaitGroup
	for i, step := range asked {
		pages[i] = rand.Text()
		method, params, err := stepRequest(c.peer.revision, step, pages[i])
		if err != nil {
			cancel(err)
			errs[i] = err
			break
		}
		call := func(ctx context.Context) {
			answers[i], errs[i] = c.Way.Call(ctx, method, params)
			if errors.Is(errs[i], turns.ErrLate) {
				answers[i], errs[i] = steps.Answer{}, nil
			}
		}
		if i == len(asked)-1 {
			call(ctx)
		} else { // on the wire before the next
			inturn.Go(ctx, all.Go, call)
		}
	}
	all.Wait()
	for i, s := range asked {
		if opens(s, answers[i]) {
			c.accepted = append(c.accepted, pages[i])
		}
	}
	return answers, errors.Join(errs...)
}

// stepRequest is the request for a step, in the form of its revision. A page that it is to open has an id.
func stepRequest(r revision.Revision, s steps.Step, page string) (method string, params json.RawMessage, err error) {
	params = s.Params
	switch {
	case s.Kind == steps.Elicitation && s.Needs.Has(steps.Features{Links: true}):
		params = append(json.RawMessage(nil), s.Params[:len(s.Params)-1]...) // compact: ends with the brace
		params = append(wire.AppendString(append(params, `,"elicitationId":`...), page), '}')
	case r < revision.November2025:
		params, err = r.Question(s)
	}
	return dialect.RequestMethods[s.Kind], params, err
}

// A call may send the user to pages. From 2025-11-25 on each has an id, and the client learns when what was to be done there is (MCP
// 2025-11-25, client/elicitation, completion notifications): when an event says it, or the call has succeeded.

// opens reports whether the user has agreed to open the page of a step, if that is one.
func opens(s steps.Step, a steps.Answer) bool {
	return s.Kind == steps.Elicitation && s.Needs.Has(steps.Features{Links: true}) && jsonview.Is(jsonview.Get(a.Result, "action"), "accept")
}

// completed tells the client that what its user was to do on these pages is done.
func (c *call) completed(pages []string) {
	for _, id := range pages {
		c.Way.Notify("notifications/elicitation/complete", append(wire.AppendString([]byte(`{"elicitationId":`), id), '}'))
	}
}

// sendFinishedPages tells the client which pages the user has finished on, as events say; perhaps again, which clients ignore.
func (r *reader) sendFinishedPages(t *tasks.Task) {
	if r.Way == nil || t.Program == nil || t.Status.Ended() { // the end says all
		return
	}
	for _, step := range dialect.NoteOf(t).Accepted {
		id, _, _ := strings.Cut(step, "~")
		if q := t.Program.Routing(step); q.Done != "" && slices.Contains(t.Happened, q.Done+strings.TrimPrefix(id, q.ID)) {
			r.visited(t.ID, step)
		}
	}
}

// visited tells the client once that its user has finished on the page of a link.
func (r *reader) visited(task, step string) {
	if !slices.Contains(r.visits, step) {
		r.visits = append(r.visits, step)
		r.completed([]string{linkID(task, step)})
	}
}

// linkID is the id of a page that a task's question sends the user to: each replica finds the same.
func linkID(task, step string) string {
	sum := sha256.Sum256([]byte("page of task " + task + " " + step))
	return base32.StdEncoding.EncodeToString(sum[:16])[:26]
}

// codeNotFound says that there is no such resource; MCP 2026-07-28 dropped it.
const codeNotFound = -32002

func (c *call) promptsGet(ctx context.Context) (json.RawMessage, error) {
	var p struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	t, err := c.Prompt(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	return c.driveStrings(ctx, t, p.Arguments, "")
}

func (c *call) resourcesRead(ctx context.Context) (json.RawMessage, error) {
	uri, rerr := c.param("uri", "resource")
	if rerr != nil {
		return nil, rerr
	}
	if open, ok := c.apps.Page(uri); ok {
		return append(open, '}'), nil
	}
	t, variables, err := c.Resource(ctx, uri)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, notFound(uri)
	}
	return c.driveStrings(ctx, t, variables, uri)
}

// plainError is an error of a prompt or a resource, which have no results that say what a tool's would.
func (c *call) plainError(err error) error {
	if r := c.stopped(err); r != nil {
		return wire.NewError(wire.CodeInvalidRequest, r.Content.Text())
	}
	return err
}

// driveStrings answers a request for a prompt, or a resource at a URI.
func (c *call) driveStrings(ctx context.Context, t *engine.Program, args map[string]string, uri string) (json.RawMessage, error) {
	raw, _ := wire.Marshal(args) // strings always encode
	end, err := c.drive(ctx, t, raw, nil)
	return c.plainResult(t.Kind, uri, end, err)
}

// plainResult is the response to prompts/get or resources/read. The URI is empty if another request has read it.
func (c *call) plainResult(kind engine.Kind, uri string, end turns.End, err error) (json.RawMessage, error) {
	switch err = dialect.EndError(end, err); {
	case kind == engine.KindResource && errors.Is(err, saga.ErrNotFound):
		return nil, notFound(uri)
	case err != nil:
		return nil, c.plainError(err)
	case kind == engine.KindResource:
		return append(dialect.AppendContents([]byte(`{"contents":`), end.Contents), '}'), nil
	}
	messages := *end.Messages
	messages.Messages = slices.Clone(messages.Messages)
	for i := range messages.Messages {
		messages.Messages[i].Content = c.peer.revision.Block(messages.Messages[i].Content)
	}
	return wire.Marshal(messages)
}

func notFound(uri string) *wire.Error {
	rerr := wire.NewError(codeNotFound, "resource not found")
	if uri != "" {
		rerr = rerr.WithData(`{"uri":`, uri)
	}
	return rerr
}
