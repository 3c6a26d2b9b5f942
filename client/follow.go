package client

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// follower drives one task to its end.
type follower struct {
	*Client
	p *Position
	h *Handlers
	// sent are the answers that this process has sent.
	sent map[string]bool
	// rounds is how often the task has asked something new.
	rounds int
	// shown is what OnProgress got last.
	shown *Task
	subscription
}

// follow returns the result of the task at p, or of the one that the call has just become, and
// answers what it asks.
func (c *Client) follow(ctx context.Context, p *Position, h *Handlers, created *Task) (json.RawMessage, error) {
	f := &follower{Client: c, p: p, h: h, sent: map[string]bool{}}
	if created != nil {
		// What was asked before is of no more use: a task has its own names for what it asks.
		p.Task, p.Token, p.Key, p.Steps, p.Answers = created.ID, "", "", nil, nil
		f.show(created)
		if err := h.report(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := c.checkTask(p); err != nil {
		return nil, err
	}
	defer f.end()
	var task *Task
	var err error
	for {
		if task == nil {
			if task, err = c.task(ctx, p.Task, h); err != nil {
				return nil, err
			}
		}
		f.show(task)
		switch {
		case task.Status == "completed" && task.Result == nil:
			return nil, malformed("the server's task has completed without a result")
		case task.Status == "completed":
			return task.Result, nil
		case task.Ended():
			return nil, &TaskError{*task}
		case task.Status == "input_required":
			if err := f.answer(ctx, task); err != nil {
				return nil, err
			}
		}
		if f.stop == nil {
			f.subscribe(ctx, c, p.Task, h)
		}
		if task, err = f.wait(ctx, task.pause()); err != nil {
			return nil, err
		}
	}
}

// answer has the handlers answer what the task asks, and sends each answer as it comes:
// the server takes them one by one, and has them if this process ends.
func (f *follower) answer(ctx context.Context, task *Task) error {
	again := map[string]json.RawMessage{} // recorded, but perhaps never sent
	for _, a := range f.p.Answers {
		if !f.sent[a.StepID] && slices.ContainsFunc(task.Steps, func(s Step) bool { return s.StepID == a.StepID }) {
			again[a.StepID] = a.Result
		}
	}
	if err := f.update(ctx, again); err != nil {
		return err
	}
	f.p.Steps = task.Steps
	pending := f.p.Pending()
	if len(pending) == 0 {
		return nil
	}
	f.p.Round++
	if err := f.h.report(ctx, f.p); err != nil {
		return err
	}
	if f.rounds++; f.rounds > f.options.MaxRounds {
		return tooManyRounds(f.options.MaxRounds)
	}
	for _, step := range pending {
		answer, err := answerStep(ctx, f.p, f.h, step, false)
		if err == nil {
			err = f.update(ctx, map[string]json.RawMessage{answer.StepID: answer.Result})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) update(ctx context.Context, answers map[string]json.RawMessage) error {
	if len(answers) == 0 {
		return nil
	}
	_, err := f.send(ctx, f.taskRequest("tasks/update", f.p.Task, f.h, answers))
	for id := range answers {
		f.sent[id] = err == nil
	}
	return err
}

func (f *follower) show(task *Task) {
	before := f.shown
	same := before != nil && before.Status == task.Status && before.Message == task.Message && before.Updated.Equal(task.Updated)
	if f.h.OnProgress != nil && !same {
		f.shown = task
		f.h.OnProgress(Progress{Message: task.Message, Task: task})
	}
}

// subscription waits for the next state of a task: until it is time to ask the server again, or
// until the server sends it, if it takes a subscription (MCP 2026-07-28, subscriptions/listen).
type subscription struct {
	stop    context.CancelFunc // nil until there is a subscription
	running sync.WaitGroup
	// active: the server has taken it.
	active atomic.Bool
	// states has the latest state that the server has sent, or nil if the server is to be asked
	// now, as the subscription has just begun or ended.
	states chan *Task
}

// reminder is how often a server with a subscription is asked nevertheless.
const reminder = 15 * time.Second

// wait returns the next state of the task, or nil: ask the server.
func (s *subscription) wait(ctx context.Context, pause time.Duration) (*Task, error) {
	if s.active.Load() {
		pause = max(pause, reminder)
	}
	select {
	case task := <-s.states:
		return task, nil
	case <-time.After(pause):
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type listenFilter struct {
	TaskIDs []string `json:"taskIds"`
}

type listenParams struct {
	Notifications listenFilter `json:"notifications"`
	Meta          *requestMeta `json:"_meta"`
}

func (s *subscription) subscribe(ctx context.Context, c *Client, id string, h *Handlers) {
	ctx, s.stop = context.WithCancel(ctx)
	s.states = make(chan *Task, 1)
	push := func(task *Task) {
		select {
		case <-s.states: // an older one
		default:
		}
		s.states <- task
	}
	r := introduced("subscriptions/listen", "", listenParams{listenFilter{[]string{id}}, statelessDialect{c.options}.meta(h).withTasks()})
	r.notify = func(method string, params json.RawMessage) {
		switch method {
		case "notifications/subscriptions/acknowledged":
			var wire struct {
				Notifications listenFilter `json:"notifications"`
			}
			if json.Unmarshal(params, &wire) != nil || !slices.Equal(wire.Notifications.TaskIDs, []string{id}) {
				s.stop() // it will send nothing
			} else if !s.active.Swap(true) {
				push(nil) // something may have changed before
			}
		case "notifications/tasks":
			if task, err := parseTask(params, c.options.Limits); err == nil && task.ID == id && s.active.Load() {
				push(task)
			}
		}
	}
	s.running.Go(func() {
		// If it fails or ends, the server is asked as before.
		_, _ = c.transport.exchange(ctx, &r)
		if s.active.Swap(false) {
			push(nil)
		}
	})
}

func (s *subscription) end() {
	if s.stop != nil {
		s.stop()
	}
	s.running.Wait()
}
