package client

import (
	"context"
	"encoding/json"
	"slices"
)

// follower drives one task to its end.
type follower struct {
	*Client
	p      *Position
	h      *Handlers
	sent   map[string]bool // answers that this process has sent
	rounds int             // how often the task has asked something new
	shown  *Task           // what OnProgress got last
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
	for {
		task, err := c.task(ctx, p.Task, h)
		if err != nil {
			return nil, err
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
		if err := sleep(ctx, task.pause()); err != nil {
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
		answer, err := answerStep(ctx, f.p, f.h, step)
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
	_, err := f.aboutTask(ctx, "tasks/update", f.p.Task, f.h, answers)
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
