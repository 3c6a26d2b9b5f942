package tasks2025

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Texts of refusals.
const (
	endedTaskText = "the task has ended already, so it cannot be cancelled"
	badCursorText = "the cursor is not one that this list gave"
)

// Request is a request that looks at tasks.
type Request struct {
	*dialect.Host
	*dialect.Exchange
	By Client
}

// Client is who sends it.
type Client interface {
	// Failure is how a call ends for the client whose task has failed.
	Failure(context.Context, *tasks.Task) (*content.Result, error)
}

// Append writes a task as this revision has it: one whose result says that the tool failed
// has failed.
func (r Request) Append(ctx context.Context, b []byte, t *tasks.Task) ([]byte, error) {
	status, message := dialect.TaskStatus(t.Status), t.Message
	switch {
	case t.Bad:
		status = "failed"
	case t.Status == tasks.Failed:
		result, err := r.By.Failure(ctx, t)
		if err != nil {
			message = err.Error()
		} else {
			message = result.Content.Text()
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

// TaskID reads which task a request is about.
func (r Request) TaskID() (string, error) {
	var p struct {
		TaskID *string `json:"taskId"`
	}
	if rerr := wire.DecodeParams(r.Message.Params, &p); rerr != nil {
		return "", rerr
	}
	if p.TaskID == nil {
		return "", wire.NewError(wire.CodeInvalidParams, "params.taskId is missing: it names the task")
	}
	if !r.MayName(*p.TaskID) {
		return "", tasks.ErrNotFound
	}
	return *p.TaskID, nil
}

// Get answers tasks/get.
func (r Request) Get(ctx context.Context) (json.RawMessage, error) {
	id, err := r.TaskID()
	if err != nil {
		return nil, err
	}
	task, err := r.Tasks.Status(ctx, r.Principal, id)
	if err != nil {
		return nil, err
	}
	return r.Append(ctx, nil, task)
}

const (
	// tasksPage is how many tasks a page of tasks/list has.
	tasksPage = 50
	// maxCursor is the longest cursor that is looked at.
	maxCursor = 256
)

// List answers tasks/list.
func (r Request) List(ctx context.Context) (json.RawMessage, error) {
	if !Lists(r.Exchange) {
		return nil, wire.NotFound()
	}
	var p struct {
		Cursor string `json:"cursor"`
	}
	if rerr := wire.DecodeParams(r.Message.Params, &p); rerr != nil {
		return nil, rerr
	}
	if !validCursor(p.Cursor) {
		return nil, wire.NewError(wire.CodeInvalidParams, badCursorText)
	}
	list, next, err := r.Tasks.List(ctx, r.Principal, p.Cursor, tasksPage)
	if err != nil {
		return nil, err
	}
	b := []byte(`{"tasks":[`)
	for i, task := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = r.Append(ctx, b, task); err != nil {
			return nil, err
		}
	}
	b = append(b, ']')
	if next != "" {
		b = wire.AppendString(append(b, `,"nextCursor":`...), next)
	}
	return append(b, '}'), nil
}

// Lists reports whether the sender of a message may see a list of tasks: over HTTP only
// those who are known.
func Lists(x *dialect.Exchange) bool { return x.Header == nil || x.Principal != "" }

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

// Cancel answers tasks/cancel.
func (r Request) Cancel(ctx context.Context) (json.RawMessage, error) {
	id, err := r.TaskID()
	if err != nil {
		return nil, err
	}
	task, err := r.Tasks.Status(ctx, r.Principal, id)
	if err == nil && !task.Status.Ended() {
		task, err = r.Tasks.Cancel(ctx, r.Principal, id)
		if err == nil && !task.Status.Ended() {
			task, err = r.awaitEnd(ctx, task)
		}
		if err == nil && (task.Status == tasks.Cancelled || !task.Status.Ended()) {
			return r.Append(ctx, nil, task)
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, wire.NewError(wire.CodeInvalidParams, endedTaskText)
}

// awaitEnd waits a while for a task to end, and returns it as it is then.
func (r Request) awaitEnd(ctx context.Context, task *tasks.Task) (*tasks.Task, error) {
	within, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	for n, err := range r.Tasks.Follow(within, r.Principal, task.ID, tasks.NoEvents, nil) {
		if err != nil {
			if within.Err() != nil && ctx.Err() == nil {
				return task, nil // it may be too late to cancel it
			}
			return nil, err
		}
		task = n.Task
	}
	return task, nil
}
