package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// tasksExtension is the tasks extension of MCP 2026-07-28 (SEP-2663).
const tasksExtension = "io.modelcontextprotocol/tasks"

// Task is the state of a task: a call of a tool that the server works on by itself. Its
// texts are the server's.
type Task struct {
	ID               string          // as good as a key to the task: keep it where only the user can read it
	Status           string          // working, input_required, completed, failed or cancelled; the last three are final
	Message          string          // more about the status, or empty
	Created, Updated time.Time       // by the server's clock; zero if it does not say
	TTL              time.Duration   // how long the server keeps the task after its creation; 0 is for ever
	Poll             time.Duration   // how long to wait before the server is asked again; 0 if it does not say
	Steps            []Step          // what it asks, if it is input_required
	Result           json.RawMessage // the tool's result as it came, if it is completed
	Error            *Error          // why there is none, if it has failed
}

// Ended reports whether the status is final.
func (t *Task) Ended() bool {
	return t.Status == "completed" || t.Status == "failed" || t.Status == "cancelled"
}

// TaskError says that a task has ended without a result of its tool: it has failed, which
// is not the tool's own account, or it was cancelled.
type TaskError struct {
	Task Task // its last state
}

// Error implements error.
func (e *TaskError) Error() string {
	text := "the task has " + e.Task.Status
	if e.Task.Status == "cancelled" {
		text = "the task was cancelled"
	}
	if e.Task.Message != "" {
		text += ": " + e.Task.Message
	}
	if e.Task.Error != nil && e.Task.Error.Message != e.Task.Message {
		text += ": " + e.Task.Error.Error()
	}
	return text
}

// Unwrap returns the server's error, if there is one.
func (e *TaskError) Unwrap() error {
	if e.Task.Error == nil {
		return nil
	}
	return e.Task.Error
}

// Bounds of how often servers are asked about tasks: once a second if they do not say.
const (
	defaultPoll = time.Second
	minPoll     = 100 * time.Millisecond
	maxPoll     = time.Minute
	maxTaskID   = 4 << 10 // bytes
)

// pause is how long to wait before the server is asked for the task again.
func (t *Task) pause() time.Duration {
	return min(max(cmp.Or(t.Poll, defaultPoll), minPoll), maxPoll)
}

// parseTask reads the state of a task: that of a result "task", or of tasks/get.
func parseTask(raw json.RawMessage, limits Limits) (*Task, error) {
	wire := struct {
		ID       string          `json:"taskId"`
		Status   string          `json:"status"`
		Message  string          `json:"statusMessage"`
		Created  string          `json:"createdAt"`
		Updated  string          `json:"lastUpdatedAt"`
		TTL      float64         `json:"ttlMs"` // null is for ever
		Poll     float64         `json:"pollIntervalMs"`
		OldPoll  float64         `json:"pollInterval"` // in MCP 2025-11-25
		OldTTL   float64         `json:"ttl"`
		Requests inputRequests   `json:"inputRequests"`
		Result   json.RawMessage `json:"result"`
		Error    *Error          `json:"error"`
	}{Requests: inputRequests{max: limits.Steps}}
	if err := read(raw, &wire, "the server's task"); err != nil {
		return nil, err
	}
	if len(wire.ID) == 0 || len(wire.ID) > maxTaskID {
		return nil, malformed("the server's task needs an id of at most %d bytes, not one of %d", maxTaskID, len(wire.ID))
	}
	task := &Task{ID: wire.ID, Status: wire.Status, Message: wire.Message, TTL: milliseconds(cmp.Or(wire.TTL, wire.OldTTL)), Poll: milliseconds(cmp.Or(wire.Poll, wire.OldPoll))}
	task.Created, _ = time.Parse(time.RFC3339, wire.Created) // to show only
	task.Updated, _ = time.Parse(time.RFC3339, wire.Updated)
	switch task.Status {
	case "working", "cancelled":
	case "input_required":
		task.Steps = wire.Requests.steps
		return task, limits.checkForms(task.Steps)
	case "completed":
		task.Result = wire.Result
	case "failed":
		task.Error = wire.Error
	default:
		return nil, malformed("the server's task has the status %.40q, which this client does not know", wire.Status)
	}
	return task, nil
}

// aboutTask sends a request about a task. All can be repeated: answers that come again are ignored.
func (c *Client) aboutTask(ctx context.Context, method, id string, h *Handlers, answers map[string]json.RawMessage) (json.RawMessage, error) {
	r := statelessDialect{c.options}.request(method, id, h, params{TaskID: id, InputResponses: answers})
	r.later = true
	return c.send(ctx, r)
}

// Task asks the server for the state of the task that a call has become. position is one
// with a Task: Position{Task: id} is one for a task that another client began. Errors are
// [*Error], with the code -32602 for a task that the server does not know, or no longer,
// and those that an [*InterruptedError] wraps.
func (c *Client) Task(ctx context.Context, position Position) (*Task, error) {
	if err := c.checkTask(&position); err != nil {
		return nil, err
	}
	return c.task(ctx, position.Task, new(Handlers))
}

func (c *Client) checkTask(p *Position) error {
	if err := p.check(); err != nil {
		return err
	}
	switch _, err := c.dialect(p); {
	case err != nil:
		return err
	case p.Task == "":
		return positionError("the call is no task")
	case p.Dialect != stateless:
		return positionError("the protocol %s has no tasks", p.Dialect)
	}
	return nil
}

func (c *Client) task(ctx context.Context, id string, h *Handlers) (*Task, error) {
	raw, err := c.aboutTask(ctx, "tasks/get", id, h, nil)
	if err != nil {
		return nil, err
	}
	task, err := parseTask(raw, c.options.Limits)
	if err == nil && task.ID != id {
		return nil, malformed("the server was asked for one task and answered with another")
	}
	return task, err
}

// cancelTask asks the server to end the task, and waits for the end for as long as a turn may take.
func (c *Client) cancelTask(ctx context.Context, p *Position) (json.RawMessage, error) {
	if err := c.checkTask(p); err != nil {
		return nil, err
	}
	h := new(Handlers)
	if _, err := c.aboutTask(ctx, "tasks/cancel", p.Task, h, nil); err != nil {
		return nil, err
	}
	waiting, stop := context.WithTimeoutCause(ctx, c.options.Timeout, fmt.Errorf("the server has been asked to cancel the task, and has not done so yet: %w", ErrTimeout))
	defer stop()
	return (&follower{Client: c, p: p, h: h, cancelled: true}).await(waiting, nil)
}

// follower drives one task to its end.
type follower struct {
	*Client
	p      *Position
	h      *Handlers
	sent   map[string]bool // answers that this process has sent
	rounds int             // how often the task has asked something new
	// cancelled: nothing is answered.
	cancelled bool
}

// follow returns the result of the task at p, or that the call has just become, and answers what it asks.
func (c *Client) follow(ctx context.Context, p *Position, h *Handlers, created *Task) (json.RawMessage, error) {
	if created != nil {
		// What was asked before is of no more use: a task has its own names for what it asks.
		p.Task, p.Token, p.Key, p.Steps, p.Answers = created.ID, "", "", nil, nil
		h.showTask(created)
		if err := h.report(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := c.checkTask(p); err != nil {
		return nil, err
	}
	return (&follower{Client: c, p: p, h: h, sent: map[string]bool{}}).await(ctx, created)
}

// await returns the result of the task. It shows the states but the one that was shown before, if any.
func (f *follower) await(ctx context.Context, shown *Task) (json.RawMessage, error) {
	for {
		task, err := f.task(ctx, f.p.Task, f.h)
		if err != nil {
			return nil, err
		}
		if shown == nil || shown.Status != task.Status || shown.Message != task.Message || !shown.Updated.Equal(task.Updated) {
			f.h.showTask(task)
		}
		shown = task
		switch {
		case task.Result != nil:
			return task.Result, nil
		case task.Status == "completed":
			return nil, malformed("the server's task has completed without a result")
		case task.Ended():
			return nil, &TaskError{*task}
		case task.Status == "input_required" && !f.cancelled:
			if err := f.answer(ctx, task); err != nil {
				return nil, err
			}
		}
		if err := sleep(ctx, task.pause()); err != nil {
			return nil, err
		}
	}
}

// answer has handlers answer what the task asks, one by one: the server has each answer if this process ends.
func (f *follower) answer(ctx context.Context, task *Task) error {
	f.p.Steps = task.Steps
	pending := f.p.Pending()
	if err := f.update(ctx); err != nil || len(pending) == 0 {
		return err
	}
	f.p.Round++
	if err := f.h.report(ctx, f.p); err != nil {
		return err
	}
	if f.rounds++; f.rounds > f.options.MaxRounds {
		return tooManyRounds(f.options.MaxRounds)
	}
	for _, step := range pending {
		err := answerStep(ctx, f.p, f.h, step)
		if err == nil {
			err = f.update(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// update sends the answers to what the task asks now, but those that this process has sent.
func (f *follower) update(ctx context.Context) error {
	answers := map[string]json.RawMessage{}
	for _, a := range f.p.Answers {
		if !f.sent[a.StepID] && slices.ContainsFunc(f.p.Steps, func(s Step) bool { return s.StepID == a.StepID }) {
			answers[a.StepID] = a.Result
		}
	}
	if len(answers) == 0 {
		return nil
	}
	_, err := f.aboutTask(ctx, "tasks/update", f.p.Task, f.h, answers)
	for id := range answers {
		f.sent[id] = err == nil
	}
	return err
}

func (h *Handlers) showTask(task *Task) {
	if h.OnProgress != nil {
		h.OnProgress(Progress{Message: task.Message, Task: task})
	}
}
