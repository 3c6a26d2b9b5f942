package stateless

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// The tasks extension (SEP-2663). A client that declares it, in the request itself, may get a
// task for the result of tools/call; it looks at it with tasks/get or a subscription, answers
// with tasks/update, and ends it with tasks/cancel. Whether there is a task is for the tool to
// say. The parameter task of older revisions means nothing here.

// missingTasks is the error of a client that has not declared the extension.
func missingTasks() *wire.Error {
	rerr := wire.Refuse(http.StatusBadRequest, wire.CodeMissingCapability, "this needs the extension "+dialect.TasksExtension+" among the client's capabilities")
	rerr.Data = json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + dialect.TasksExtension + `":{}}}}`)
	return rerr
}

// createTask begins a task, or continues the rounds that come before it. call is not nil if it asks elsewhere.
func (d *stateless) createTask(ctx context.Context, r *request, call *elsewhere.Call, t *engine.Program, args json.RawMessage, p *dialect.Params) ([]byte, error) {
	q, err := d.prepare(r, t, args, p)
	if err != nil {
		return nil, err
	}
	if p.State != nil && q.Token == "" { // it would be another task
		return nil, wire.NewError(wire.CodeInvalidParams, staleText)
	}
	task, err := d.elsewhere.Begin(ctx, r.Exchange, call, tasks.Start{Request: q, Account: r.LedgerAccount(""), Shared: r.Shares()})
	if err != nil {
		return nil, err
	}
	switch {
	case task.ID != "":
		_, status, message := d.elsewhere.Shown(ctx, r.Exchange, task)
		return d.finish(appendTask(nil, task, dialect.TaskStatus(status), message), resultTask), nil
	case task.End.Token != "":
		return d.inputRequired(task.End), nil
	}
	return d.partResult(task.End.Result, "")
}

func (d *stateless) getTask(ctx context.Context, r *request) ([]byte, error) {
	id, _, err := readTask(r)
	if err != nil {
		return nil, err
	}
	task, err := d.Tasks.Get(ctx, r.Principal, id)
	if err != nil {
		return nil, err
	}
	b, err := d.detailed(ctx, r, task)
	return d.completed(b, err)
}

// updateTask gives a task answers. Which of them it waits for is for the task to know: the
// others are ignored.
func (d *stateless) updateTask(ctx context.Context, r *request) ([]byte, error) {
	id, responses, err := readTask(r)
	if err != nil {
		return nil, err
	}
	if responses == nil {
		return nil, wire.NewError(wire.CodeInvalidParams, "params.inputResponses is missing: it has the answers to the task's inputRequests")
	}
	list, err := dialect.InputResponses(responses)
	if err != nil {
		return nil, err
	}
	task, err := d.Tasks.Get(ctx, r.Principal, id)
	if err == nil {
		err = d.Turns.MayAnswer(task.Program, list)
	}
	if err == nil {
		_, err = d.Tasks.AnswerFound(ctx, r.Principal, task, list)
	}
	return d.completed([]byte("{"), err)
}

func (d *stateless) cancelTask(ctx context.Context, r *request) ([]byte, error) {
	id, _, err := readTask(r)
	if err != nil {
		return nil, err
	}
	_, err = d.Tasks.Cancel(ctx, r.Principal, id)
	return d.completed([]byte("{"), err)
}

// readTask reads the parameters of the extension's methods.
func readTask(r *request) (id string, responses jsontext.Value, err error) {
	p, rerr := dialect.ReadParams(r.Message.Params, "taskId", "inputResponses")
	if rerr != nil {
		return "", nil, rerr
	}
	if p.Name == "" {
		return "", nil, wire.NewError(wire.CodeInvalidParams, "params.taskId is missing: it names the task")
	}
	if !dialect.OwnTaskID(p.Name) {
		return "", nil, tasks.ErrNotFound
	}
	return p.Name, p.Answers, nil
}

func appendTask(b []byte, t *tasks.Task, status, message string) []byte {
	return dialect.AppendTask(b, t, status, message, "ttlMs", "pollIntervalMs")
}

// detailed writes a task as tasks/get and notifications show it, with what it waits for or how
// it has ended. The object is left open.
func (d *stateless) detailed(ctx context.Context, r *request, t *tasks.Task) ([]byte, error) {
	own, seen, message := d.elsewhere.Shown(ctx, r.Exchange, t)
	b, status := make([]byte, 0, 512), dialect.TaskStatus(seen)
	switch seen {
	case tasks.InputRequired:
		b = append(appendTask(b, t, status, message), `,"inputRequests":`...)
		return dialect.AppendInputRequests(b, own), nil
	case tasks.Completed: // with the result that the call would have had
		result, err := d.toolResult(d.TaskResult(ctx, r.Principal, t))
		if err != nil {
			return nil, err
		}
		b = append(appendTask(b, t, status, message), `,"result":`...)
		return append(b, result...), nil
	case tasks.Failed:
		rerr := d.taskFailure(ctx, r, t)
		b = append(appendTask(b, t, status, rerr.Message), `,"error":`...)
		return wire.AppendErrorObject(b, rerr), nil
	}
	return appendTask(b, t, status, message), nil
}

// taskFailure is why a task has failed, in the words of this revision.
func (d *stateless) taskFailure(ctx context.Context, r *request, t *tasks.Task) *wire.Error {
	if errors.As(t.Err, new(*engine.UnsupportedError)) {
		return d.translate(ctx, r, t.Err)
	}
	return d.TaskFailure(ctx, t)
}
