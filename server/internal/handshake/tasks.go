package handshake

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The tasks of MCP 2025-11-25, an experiment of that revision (basic/utilities/tasks): the client
// asks for a task with the parameter task of tools/call, looks at it with tasks/get, and
// waits for its end with tasks/result, on whose stream the task asks its questions. Clients of
// other revisions see nothing of them.

// offersTasks reports whether a client is offered tasks.
func (d *handshake) offersTasks(p *peer) bool {
	return d.taskTools != nil && p != nil && p.revision >= revision2025November
}

// taskCapability is what the server declares to it. A list is of those who are known: it would
// show anybody the tasks of all who are not.
func taskCapability(lists bool) map[string]any {
	type object = map[string]any
	c := object{"cancel": object{}, "requests": object{"tools": object{"call": object{}}}}
	if lists {
		c["list"] = object{}
	}
	return c
}

// taskSupport is what lists say of a tool's Tasks.
var taskSupport = map[engine.TaskMode]string{engine.TasksOptional: "optional", engine.TasksRequired: "required"}

// listTaskTools are the tools for clients that are offered tasks.
func listTaskTools(h *dialect.Host) []json.RawMessage {
	list := make([]json.RawMessage, len(h.Catalogue.PlainTools))
	for i, t := range h.Tools.Of(engine.KindTool) {
		list[i] = h.Catalogue.PlainTools[i]
		if says := taskSupport[h.TaskMode(t)]; says != "" {
			b := append(json.RawMessage(nil), list[i][:len(list[i])-1]...)
			list[i] = append(wire.AppendString(append(b, `,"execution":{"taskSupport":`...), says), `}}`...)
		}
	}
	return list
}

// Texts of refusals.
const (
	noTasksText   = "this tool cannot be called as a task: leave out params.task"
	onlyTasksText = "this tool can only be called as a task: send params.task"
	endedTaskText = "the task has ended already, so it cannot be cancelled"
	badTTLText    = "params.task.ttl must be a number of milliseconds, and not less than 0"
	badCursorText = "the cursor is not one that this list gave"
)

// asTask reports whether a client that is offered tasks wants a call to be one, and for how long.
func (c *call) asTask(t *engine.Program, task jsontext.Value) (wanted bool, ttl time.Duration, rerr *wire.Error) {
	mode := c.TaskMode(t)
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

// createTask begins a task and answers with it.
func (c *call) createTask(ctx context.Context, t *engine.Program, args json.RawMessage, ttl time.Duration) (json.RawMessage, error) {
	q, err := c.taskRequest(t, args)
	if err != nil {
		return nil, err
	}
	q.Client = c.peer.features // whoever waits for the result asks
	var note taskNote
	if c.Notifier != nil {
		note.Token = c.Notifier.Token
	}
	raw, err := wire.Marshal(note)
	if err != nil {
		return nil, err
	}
	task, err := c.Tasks.Start(ctx, tasks.Start{Request: q, Account: c.ledgerAccount(), AtOnce: true, TTL: ttl, Note: raw})
	if err != nil {
		return nil, err
	}
	b, err := c.appendTask(ctx, []byte(`{"task":`), task)
	c.begun(ctx, task.ID)
	return append(b, '}'), err
}

// appendTask writes a task as this revision has it: one whose result says that the tool failed
// has failed.
func (c *call) appendTask(ctx context.Context, b []byte, t *tasks.Task) ([]byte, error) {
	status, message := dialect.TaskStatus(t.Status), t.Message
	switch {
	case t.Bad:
		status = "failed"
	case t.Status == tasks.Failed:
		r, err := c.failure(ctx, t)
		if err != nil {
			message = err.Error()
		} else {
			message = r.Content.Text()
		}
	}
	return append(dialect.AppendTask(b, t, status, clip(message), "ttl", "pollInterval"), '}'), nil
}

// maxMessage is how long a message about a status may be; what is longer is in the result.
const maxMessage = 1000

func clip(text string) string {
	if len(text) > maxMessage {
		text = text[:maxMessage] + "…"
	}
	return text
}

// taskID reads which task a request is about.
func (c *call) taskID() (string, error) {
	if !c.offersTasks(c.peer) {
		return "", wire.NotFound()
	}
	var p struct {
		TaskID *string `json:"taskId"`
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return "", rerr
	}
	if p.TaskID == nil {
		return "", wire.NewError(wire.CodeInvalidParams, "params.taskId is missing: it names the task")
	}
	if !c.MayName(*p.TaskID) {
		return "", tasks.ErrNotFound
	}
	return *p.TaskID, nil
}

func (c *call) getTask(ctx context.Context) (json.RawMessage, error) {
	id, err := c.taskID()
	if err != nil {
		return nil, err
	}
	task, err := c.Tasks.Status(ctx, c.Principal, id)
	if err != nil {
		return nil, err
	}
	return c.appendTask(ctx, nil, task)
}

const (
	// tasksPage is how many tasks a page of tasks/list has.
	tasksPage = 50
	// maxCursor is the longest cursor that is looked at.
	maxCursor = 256
)

func (c *call) listTasks(ctx context.Context) (json.RawMessage, error) {
	if !c.offersTasks(c.peer) || !c.listsTasks(c.Exchange) {
		return nil, wire.NotFound()
	}
	var p struct {
		Cursor string `json:"cursor"`
	}
	if rerr := wire.DecodeParams(c.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	if !validCursor(p.Cursor) {
		return nil, wire.NewError(wire.CodeInvalidParams, badCursorText)
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
		if b, err = c.appendTask(ctx, b, task); err != nil {
			return nil, err
		}
	}
	b = append(b, ']')
	if next != "" {
		b = wire.AppendString(append(b, `,"nextCursor":`...), next)
	}
	return append(b, '}'), nil
}

// listsTasks reports whether whoever sends a message may see a list of tasks: over HTTP only
// those who are known.
func (*handshake) listsTasks(x *dialect.Exchange) bool { return x.Header == nil || x.Principal != "" }

// validCursor reports whether a cursor may be one: they are keys of the ledger, which say nothing.
func validCursor(cursor string) bool {
	for i := range len(cursor) {
		switch b := cursor[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '_':
		default:
			return false
		}
	}
	return len(cursor) <= maxCursor
}

// cancelTime is how long tasks/cancel waits for what is undone. The revision has the task be
// cancelled before the answer.
const cancelTime = 10 * time.Second

func (c *call) cancelTask(ctx context.Context) (json.RawMessage, error) {
	id, err := c.taskID()
	if err != nil {
		return nil, err
	}
	task, err := c.Tasks.Status(ctx, c.Principal, id)
	if err == nil && !task.Status.Ended() {
		task, err = c.Tasks.Cancel(ctx, c.Principal, id)
		if err == nil && !task.Status.Ended() {
			task, err = c.awaitEnd(ctx, task)
		}
		if err == nil && (task.Status == tasks.Cancelled || !task.Status.Ended()) {
			return c.appendTask(ctx, nil, task)
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, wire.NewError(wire.CodeInvalidParams, endedTaskText)
}

// awaitEnd waits a while for a task to end, and returns it as it is then.
func (c *call) awaitEnd(ctx context.Context, task *tasks.Task) (*tasks.Task, error) {
	within, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	for t, err := range c.Tasks.Watch(within, c.Principal, task.ID, task.Rev) {
		if err != nil {
			if within.Err() != nil && ctx.Err() == nil {
				return task, nil // it may be too late to cancel it
			}
			return nil, err
		}
		task = t
	}
	return task, nil
}

// taskResult waits for the end of a task and answers as the call would have. What it sends
// meanwhile says which task it is of.
func (c *call) taskResult(ctx context.Context) (json.RawMessage, error) {
	id, err := c.taskID()
	if err != nil {
		return nil, err
	}
	task, err := c.Tasks.Get(ctx, c.Principal, id)
	if err != nil {
		return nil, err
	}
	r := &reader{call: c}
	if c.streams() && !task.Status.Ended() {
		r.enroll(ctx, id, false)
	}
	return c.readResult(ctx, r, task, 0)
}

// readResult is taskResult for a task that was found.
func (c *call) readResult(ctx context.Context, r *reader, task *tasks.Task, told uint64) (json.RawMessage, error) {
	id := task.ID
	changed := func(*tasks.Task) {}
	if c.Way != nil {
		way := related{c.Way, id}
		c.Way, c.Notifier.Way = way, way
		if note := noteOf(task); c.Notifier.Token == nil && note != nil && wire.ValidID(note.Token) {
			c.Notifier.Token = note.Token
		}
		last := ""
		changed = func(t *tasks.Task) {
			b, err := c.appendTask(ctx, nil, t)
			if now := dialect.TaskStatus(t.Status) + t.Message; err == nil && now != last {
				last = now
				way.Notify(statusMethod, b)
			}
		}
	}
	w := &waiter{call: c, task: id}
	if !task.Status.Ended() {
		var err error
		r.seen = changed
		if task, err = r.read(ctx, task, told); err != nil {
			if r := c.stopped(err); r != nil {
				return nil, wire.NewError(wire.CodeInvalidRequest, r.Content.Text())
			}
			return nil, err
		}
		w = r.w
	}
	c.knows(id)
	result, err := w.outcome(ctx, task)
	if err != nil {
		return nil, err
	}
	raw, err := wire.Marshal(plainResult(c.peer.revision, result.Result))
	if err != nil {
		return nil, err
	}
	return dialect.RelatedTask(raw, id), nil
}

// resultMethod is the method that waits for a task.
const resultMethod = "tasks/result"

// statusMethod is the notification that has a task in it, and so need not say of which it is.
const statusMethod = "notifications/tasks/status"

// related is a way on which messages say that they belong to a task.
type related struct {
	dialect.Way
	task string
}

func (r related) Notify(method string, params json.RawMessage) {
	if method != statusMethod {
		params = dialect.RelatedTask(params, r.task)
	}
	r.Way.Notify(method, params)
}

func (r related) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	return r.Way.Call(ctx, method, dialect.RelatedTask(params, r.task))
}

// Rest implements [dialect.Rester].
func (r related) Rest() (back func()) { return dialect.Rest(r.Way) }
