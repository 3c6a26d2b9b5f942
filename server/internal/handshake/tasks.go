package handshake

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The tasks of MCP 2025-11-25, an experiment of that revision (basic/utilities/tasks): the client asks for a
// task with the parameter task of tools/call, looks at it with tasks/get, and waits for its end with
// tasks/result, on whose stream the task asks its questions. Clients of other revisions see nothing of them.

// resultMethod is the method that waits for a task. taskStatusMethod is the notification that has a task in it,
// and so need not say of which it is.
const (
	resultMethod     = "tasks/result"
	taskStatusMethod = "notifications/tasks/status"
)

const (
	// tasksPage is how many tasks a page of tasks/list has.
	tasksPage = 50
	// maxMessage is how long a message about a status may be; what is longer is in the result.
	maxMessage = 1000
	// cancelTime is how long tasks/cancel waits for what is undone. The revision has the task be
	// cancelled before the answer.
	cancelTime = 10 * time.Second
)

// Texts of refusals.
const (
	noTasksText   = "this tool cannot be called as a task: leave out params.task"
	onlyTasksText = "this tool can only be called as a task: send params.task"
	badTTLText    = "params.task.ttl must be a number of milliseconds, and not less than 0"
	endedTaskText = "the task has ended already, so it cannot be cancelled"
)

// listsTasks reports whether the sender of a message may see a list of tasks: over HTTP only those who are
// known, as it would show anybody the tasks of all who are not.
func listsTasks(x *dialect.Exchange) bool { return x.Header == nil || x.Principal != "" }

// taskCapability is what the server declares to a client.
func taskCapability(lists bool) map[string]any {
	type object = map[string]any
	c := object{"cancel": object{}, "requests": object{"tools": object{"call": object{}}}}
	if lists {
		c["list"] = object{}
	}
	return c
}

// support is what lists say of a tool's Tasks.
var support = map[engine.TaskMode]string{engine.TasksOptional: "optional", engine.TasksRequired: "required"}

// taskTools are the tools for clients that are offered tasks.
func taskTools(h *dialect.Host) (list []dialect.Entry) {
	for _, e := range h.Catalogue.PlainTools {
		if says := support[h.TaskMode(e.Program)]; says != "" {
			b := append(json.RawMessage(nil), e.JSON[:len(e.JSON)-1]...)
			e.JSON = append(wire.AppendString(append(b, `,"execution":{"taskSupport":`...), says), `}}`...)
		}
		list = append(list, e)
	}
	return list
}

// taskWanted reports whether a client that is offered tasks wants a call to be one, and for how long.
func taskWanted(mode engine.TaskMode, task jsontext.Value) (wanted bool, ttl time.Duration, rerr *wire.Error) {
	switch k := task.Kind(); {
	case (k == jsontext.KindInvalid || k == 'n') && mode == engine.TasksRequired:
		return false, 0, wire.NewError(wire.CodeMethodNotFound, onlyTasksText)
	case k == jsontext.KindInvalid || k == 'n':
		return false, 0, nil
	case k != '{':
		return false, 0, wire.WrongParam("/task")
	case mode == engine.TasksForbidden:
		return false, 0, wire.NewError(wire.CodeMethodNotFound, noTasksText)
	}
	var millis float64
	if v := jsonview.Get(task, "ttl"); v != nil && jsontext.Value(v).Kind() != 'n' {
		if err := json.Unmarshal(v, &millis); err != nil || millis < 0 {
			return false, 0, wire.NewError(wire.CodeInvalidParams, badTTLText)
		}
	}
	// What is too much is the author's to say, and nothing at all is no wish.
	return true, time.Duration(min(millis, math.MaxInt64/2/float64(time.Millisecond)) * float64(time.Millisecond)), nil
}

// createTask begins a task and answers with it. asks is not nil if the task asks elsewhere, or was begun before.
func (c *call) createTask(ctx context.Context, asks *elsewhere.Call, t *engine.Program, args json.RawMessage, ttl time.Duration) (json.RawMessage, error) {
	task, err := (*tasks.Task)(nil), error(nil)
	if asks != nil && asks.Token != "" {
		task, err = c.elsewhere.Resume(ctx, c.Exchange, asks)
	} else {
		start := tasks.Start{Account: c.LedgerAccount(c.Caller.Session), Shared: c.Shares(), AtOnce: true, TTL: ttl}
		if start.Request, err = c.taskRequest(t, args); err != nil {
			return nil, err
		}
		start.Request.Client = c.peer.Features                                  // the request that waits for the result asks
		start.Note, _ = wire.Marshal(dialect.Note{Progress: c.progressToken()}) // checked JSON always encodes
		if err = c.post.stay(start.Request.IdempotencyKey); err != nil {
			return nil, err
		}
		task, err = c.elsewhere.Begin(ctx, c.Exchange, asks, start)
	}
	if err != nil {
		return nil, err
	}
	return append(c.appendTask(ctx, []byte(`{"task":`), task), '}'), nil
}

// appendTask writes a task as the revision has it: one whose result says that the tool failed has failed.
func (c *call) appendTask(ctx context.Context, b []byte, t *tasks.Task) []byte {
	_, seen, message := c.elsewhere.Shown(ctx, c.Exchange, t)
	status := dialect.TaskStatus(seen)
	switch {
	case t.Bad:
		status = "failed"
	case t.Status == tasks.Failed:
		if result, err := c.failure(ctx, t); err != nil {
			message = err.Error()
		} else {
			message = result.Content.Text()
		}
	}
	if t.Status.Ended() && len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return append(dialect.AppendTask(b, t, status, message, "ttl", "pollInterval"), '}')
}

// named is the task that a request is about, if its client is offered tasks.
func (c *call) named(ctx context.Context) (*tasks.Task, error) {
	if !c.offersTasks(c.peer) {
		return nil, wire.NotFound()
	}
	id, rerr := c.param("taskId", "task")
	switch {
	case rerr != nil:
		return nil, rerr
	case !c.MayName(id):
		return nil, tasks.ErrNotFound
	}
	return c.Tasks.Get(ctx, c.Principal, id)
}

func (c *call) taskGet(ctx context.Context) (json.RawMessage, error) {
	task, err := c.named(ctx)
	if err != nil {
		return nil, err
	}
	return c.appendTask(ctx, nil, task), nil
}

// taskList answers tasks/list. Cursors are keys of the ledger, which say nothing.
func (c *call) taskList(ctx context.Context) (json.RawMessage, error) {
	if !c.offersTasks(c.peer) || !listsTasks(c.Exchange) {
		return nil, wire.NotFound()
	}
	var p struct {
		Cursor string `json:"cursor"`
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	list, next, err := c.Tasks.List(ctx, c.Principal, p.Cursor, tasksPage)
	if err != nil {
		return nil, err
	}
	b := []byte(`{"tasks":[`)
	for i, task := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = c.appendTask(ctx, b, task)
	}
	b = append(b, ']')
	if next != "" {
		b = wire.AppendString(append(b, `,"nextCursor":`...), next)
	}
	return append(b, '}'), nil
}

// taskCancel answers tasks/cancel. It waits a while for the end.
func (c *call) taskCancel(ctx context.Context) (json.RawMessage, error) {
	task, err := c.named(turns.ToCancel(ctx))
	if err == nil && task.Status.Ended() {
		return nil, wire.NewError(wire.CodeInvalidParams, endedTaskText)
	}
	if err == nil {
		task, err = c.Tasks.Cancel(ctx, c.Principal, task.ID)
	}
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	for n, err := range c.Tasks.Follow(within, c.Principal, task.ID, tasks.NoEvents, nil) {
		if err == nil {
			task = n.Task
		} else if within.Err() == nil || ctx.Err() != nil {
			return nil, err
		}
	}
	if task.Status.Ended() && task.Status != tasks.Cancelled { // else it may be too late to cancel it
		return nil, wire.NewError(wire.CodeInvalidParams, endedTaskText)
	}
	return c.appendTask(ctx, nil, task), nil
}

// taskResult waits for the end of a task and answers as the call would have; what it sends says of which task it is.
func (c *call) taskResult(ctx context.Context) (json.RawMessage, error) {
	task, err := c.named(ctx)
	if err != nil {
		return nil, err
	}
	r := &reader{call: c}
	if c.streams() && !task.Status.Ended() {
		r.enroll(ctx, task.ID, false)
	}
	return c.readResult(ctx, r, task, 0)
}

// readResult is taskResult for a task that was found.
func (c *call) readResult(ctx context.Context, r *reader, task *tasks.Task, seen uint64) (json.RawMessage, error) {
	id := task.ID
	if c.Way != nil {
		way := related{Way: c.Way, task: id}
		c.Way, c.Notifier.Way = way, way
		if note := dialect.NoteOf(task); c.Notifier.Token == nil && wire.ValidID(note.Progress) {
			c.Notifier.Token = note.Progress
		}
		last := ""
		r.seen = func(t *tasks.Task) {
			if now := fmt.Sprint(t.Status, t.Message, t.Numbers); now != last {
				last = now
				way.Notify(taskStatusMethod, c.appendTask(ctx, nil, t))
			}
		}
	}
	if !task.Status.Ended() {
		var err error
		if task, err = r.read(ctx, task, seen); err != nil {
			return nil, c.plainError(err)
		}
	}
	result, err := r.outcome(ctx, task)
	if err != nil {
		return nil, err
	}
	raw, err := wire.Marshal(c.peer.revision.Result(result.Result))
	if err != nil {
		return nil, err
	}
	return dialect.RelatedTask(raw, id), nil
}

// related is a way on which messages say that they belong to a task.
type related struct {
	dialect.Way
	task string
}

// Notify implements [dialect.Way].
func (r related) Notify(method string, params json.RawMessage) {
	if method != taskStatusMethod {
		params = dialect.RelatedTask(params, r.task)
	}
	r.Way.Notify(method, params)
}

// Call implements [dialect.Way].
func (r related) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	return r.Way.Call(ctx, method, dialect.RelatedTask(params, r.task))
}

// Rest implements [dialect.Rester].
func (r related) Rest() (back func()) { return dialect.RestOf(r.Way) }
