package client

import (
	"context"
	"encoding/json"
	"fmt"
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
	shown Progress
}

// begin has p stand at the task that the call has become. What was asked before is of no
// more use: a task has names of its own for what it asks.
func (f *follower) begin(ctx context.Context, task *Task) error {
	f.p.Task, f.p.Token, f.p.Key, f.p.Steps, f.p.Answers = task.ID, "", "", nil, nil
	f.show(task)
	return f.h.report(ctx, f.p)
}

// follow returns the result of the task, and answers what it asks.
func (f *follower) follow(ctx context.Context) (json.RawMessage, error) {
	n := new(news)
	defer n.stop()
	for {
		task := n.last
		if task == nil {
			var err error
			if task, err = f.task(ctx, f.p.Task, f.h); err != nil {
				return nil, err
			}
		}
		f.show(task)
		switch task.Status {
		case "completed":
			if task.Result == nil {
				return nil, malformed("the server's task has completed without a result")
			}
			return task.Result, nil
		case "failed", "cancelled":
			return nil, &TaskError{*task}
		case "input_required":
			if err := f.answer(ctx, task); err != nil {
				return nil, err
			}
		}
		if err := n.wait(ctx, f, task.pause()); err != nil {
			return nil, err
		}
	}
}

// answer has the handlers answer what the task asks, and sends each answer as it comes:
// the server takes them one by one, and has them if this process ends.
func (f *follower) answer(ctx context.Context, task *Task) error {
	answered := f.p.answered()
	again := map[string]json.RawMessage{} // recorded, but perhaps never sent
	isNew := false
	for _, step := range task.Steps {
		switch {
		case !answered[step.StepID]:
			isNew = true
		case !f.sent[step.StepID]:
			for _, a := range f.p.Answers {
				if a.StepID == step.StepID {
					again[a.StepID] = a.Result
				}
			}
		}
	}
	if err := f.update(ctx, again); err != nil {
		return err
	}
	if !isNew {
		return nil
	}
	f.p.Steps = task.Steps
	f.p.Round++
	if err := f.h.report(ctx, f.p); err != nil {
		return err
	}
	if f.rounds++; f.rounds > f.options.MaxRounds {
		return tooManyRounds(f.options.MaxRounds)
	}
	for _, step := range f.p.Pending() {
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
	_, err := f.send(ctx, statelessDialect{f.options}.taskRequest("tasks/update", f.p.Task, f.h, answers))
	if err != nil {
		return err
	}
	for id := range answers {
		f.sent[id] = true
	}
	return nil
}

func (f *follower) show(task *Task) {
	if f.h.OnProgress == nil {
		return
	}
	now := Progress{Message: task.Message, Task: task}
	if before := f.shown.Task; before != nil && before.Status == task.Status && before.Message == task.Message && before.Updated.Equal(task.Updated) {
		return
	}
	f.shown = now
	f.h.OnProgress(now)
}

func tooManyRounds(most int) error {
	return fmt.Errorf("the tool asks for %w; resume the call to allow as many again", &LimitError{"rounds of answers", int64(most)})
}
