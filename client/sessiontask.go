package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

const (
	// lastAnswer is how long a server has to cancel the task of a call that was given up.
	lastAnswer = 5 * time.Second
	// sessionTries is how often what is asked about such a task is asked, if the answer is lost.
	sessionTries = 5
)

// onlyTask reports whether a tool called in a session was refused because it has to be called as a
// task of MCP 2025-11-25: then nothing was done. Some servers refuse by a result. The server is asked
// once which tools those are.
func (c *Client) onlyTask(ctx context.Context, p *Position, result json.RawMessage, err error) bool {
	refused, is := errors.AsType[*Error](err)
	if p.Tool == "" || !(is && refused.Code == jsonrpc2.CodeMethodNotFound || string(jsonview.Get(result, "isError")) == "true") {
		return false
	}
	known := c.onlyTasks.Load()
	if known == nil {
		type tool struct {
			Name      string `json:"name"`
			Execution struct {
				TaskSupport string `json:"taskSupport"`
			} `json:"execution"`
		}
		tools, err := list[tool](ctx, c, inSessions, "tools/list", "tools")
		if err != nil {
			return false
		}
		known = &map[string]bool{}
		for _, t := range tools {
			(*known)[t.Name] = t.Execution.TaskSupport == "required"
		}
		c.onlyTasks.Store(known)
	}
	return (*known)[p.Tool]
}

// sessionTask is a task of MCP 2025-11-25, which asks on the stream of tasks/result. It ends with
// its call.
type sessionTask struct {
	*sessionCall
	session Session
	id      string
}

// callTask calls a tool as a task and returns its result.
func (call *sessionCall) callTask(s Session, params json.RawMessage) (json.RawMessage, error) {
	// Without an answer there is no task to cancel.
	lasting, stop := context.WithCancel(context.WithoutCancel(call.ctx))
	defer stop()
	// From now on it is the single requests that take no longer than a turn.
	call.handling.Lock()
	call.task, call.limit = lasting, 1<<62
	call.patience.Reset(call.limit)
	call.handling.Unlock()
	defer context.AfterFunc(call.ctx, func() { time.AfterFunc(lastAnswer, stop) })()
	t := &sessionTask{sessionCall: call, session: s}
	raw, err := t.ask(lasting, "tools/call", params)
	if err != nil {
		return nil, err
	}
	if raw = jsonview.Get(raw, "task"); raw == nil {
		return nil, malformed("the server was to call a tool as a task, and answered without one")
	}
	task, err := parseTask(raw, call.options.Limits)
	if err != nil {
		return nil, err
	}
	t.id = task.ID
	call.handlers.showTask(task)
	result, err := await(call.ctx, call.handlers, t, task)
	if err != nil {
		time.AfterFunc(lastAnswer, stop)
		_, _ = t.ask(lasting, "tasks/cancel", nil)
	}
	if lost, is := errors.AsType[*TransportError](err); is {
		err = &TransportError{Sent: true, Status: lost.Status, Err: lost.Err, final: true} // the call had begun
	}
	return result, err
}

// ask sends a request, by default about the task.
func (t *sessionTask) ask(ctx context.Context, method string, params json.RawMessage) (_ json.RawMessage, err error) {
	if params == nil {
		if params, err = json.Marshal(map[string]string{"taskId": t.id}); err != nil {
			return nil, err
		}
	}
	if method != "tasks/result" { // which waits for the end
		limited, cancel := context.WithTimeoutCause(ctx, t.options.Timeout, ErrTimeout)
		defer cancel()
		ctx = limited
	}
	raw, err := t.session.Request(ctx, method, params)
	if err != nil && errors.Is(context.Cause(ctx), ErrTimeout) {
		err = &TransportError{Sent: true, Err: ErrTimeout, final: true}
	}
	return raw, err
}

// askAgain asks about the task until there is an answer: the task continues if one is lost.
func (t *sessionTask) askAgain(ctx context.Context, method string) (json.RawMessage, error) {
	var last error
	attempt := func() (raw json.RawMessage, err error) {
		if raw, last = t.ask(ctx, method, nil); last != nil && !errors.As(last, new(*TransportError)) {
			return nil, backoff.Permanent(last)
		}
		return raw, last
	}
	raw, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(backoff.NewConstantBackOff(defaultPoll)), backoff.WithMaxTries(sessionTries))
	if err != nil && ctx.Err() == nil {
		err = last
	}
	return raw, err
}

// get implements runningTask. Tasks that failed have results too.
func (t *sessionTask) get(ctx context.Context) (*Task, error) {
	raw, err := t.askAgain(ctx, "tasks/get")
	if err != nil {
		return nil, err
	}
	task, err := parseTask(raw, t.options.Limits)
	if err == nil && (task.Status == "completed" || task.Status == "failed") {
		task.Result, err = t.askAgain(ctx, "tasks/result")
		if jsonview.Get(task.Result, "content") == nil {
			task.Result = nil
		}
	}
	return task, err
}

// answer implements runningTask: it waits for the result, and the task asks meanwhile.
func (t *sessionTask) answer(ctx context.Context, _ *Task) (json.RawMessage, error) {
	result, err := t.ask(ctx, "tasks/result", nil)
	switch {
	case errors.As(err, new(*TransportError)):
		return nil, nil // await asks whether the task is still there
	case err != nil || jsonview.Get(result, "content") != nil:
		return result, err
	}
	return nil, nil // it has ended without one, as its state says
}
