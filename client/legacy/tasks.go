package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/client"
)

// tasksRevision is the one revision in which a tool may have to be called as a task
// (basic/utilities/tasks).
const tasksRevision = "2025-11-25"

// relatedTask is the key in _meta that says of which task a message is.
const relatedTask = "io.modelcontextprotocol/related-task"

const (
	// lastAnswer is how long a server has to cancel the task of a call that was given up.
	lastAnswer = 5 * time.Second
	// mostPages is how many pages of a list of tools are read.
	mostPages = 100
	// mostFailures is how often in a row the wait for a result may break.
	mostFailures = 5

	minPoll, defaultPoll, maxPoll = 100 * time.Millisecond, time.Second, time.Minute
)

// mustBeTask reports whether the server's tool is one that has to be called as a task. The server
// is asked once.
func (s *session) mustBeTask(ctx context.Context, tool string) bool {
	if s.conn == nil || s.InitializeResult().ProtocolVersion != tasksRevision {
		return false
	}
	s.mu.Lock()
	known := s.onlyTasks
	s.mu.Unlock()
	if known == nil {
		known = map[string]bool{}
		page := struct {
			Tools []struct {
				Name      string `json:"name"`
				Execution struct {
					TaskSupport string `json:"taskSupport"`
				} `json:"execution"`
			} `json:"tools"`
			NextCursor string `json:"nextCursor"`
		}{}
		for range mostPages {
			params := map[string]any{}
			if page.NextCursor != "" {
				params["cursor"] = page.NextCursor
			}
			raw, err := s.ask(ctx, "tools/list", params)
			page.Tools, page.NextCursor = nil, ""
			if err != nil || json.Unmarshal(raw, &page) != nil {
				return false
			}
			for _, t := range page.Tools {
				if t.Execution.TaskSupport == "required" {
					known[t.Name] = true
				}
			}
			if page.NextCursor == "" {
				break
			}
		}
		s.mu.Lock()
		s.onlyTasks = known
		s.mu.Unlock()
	}
	return known[tool]
}

// callTask calls a tool as a task and waits for its result, on whose stream the task asks. If ctx
// ends the task is cancelled.
func (s *session) callTask(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	var call map[string]json.RawMessage
	if err := json.Unmarshal(params, &call); err != nil {
		return nil, err
	}
	call["task"] = json.RawMessage("{}")
	// Without an answer there is nothing to cancel.
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastAnswer, stop) })()
	raw, err := s.ask(lasting, "tools/call", call)
	if err != nil {
		return nil, err
	}
	var created struct {
		Task json.RawMessage `json:"task"`
	}
	var task struct {
		ID   string  `json:"taskId"`
		Poll float64 `json:"pollInterval"`
	}
	if json.Unmarshal(raw, &created) != nil || json.Unmarshal(created.Task, &task) != nil || task.ID == "" {
		return nil, &client.ProtocolError{Reason: "the server was to call a tool as a task, and answered without one"}
	}
	about := map[string]any{"taskId": task.ID}
	type outcome struct {
		result json.RawMessage
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := s.result(ctx, about)
		done <- outcome{result, err}
	}()
	poll := time.NewTicker(min(max(time.Duration(task.Poll)*time.Millisecond, minPoll), maxPoll))
	if task.Poll <= 0 {
		poll.Reset(defaultPoll)
	}
	defer poll.Stop()
	s.notify("notifications/tasks/status", created.Task)
	for {
		select {
		case o := <-done:
			if ctx.Err() != nil {
				_, _ = s.ask(lasting, "tasks/cancel", about)
			}
			if o.err == nil {
				o.err = s.endedWithout(ctx, o.result, about)
			}
			return o.result, o.err
		case <-poll.C:
			if raw, err = s.ask(ctx, "tasks/get", about); err == nil {
				s.notify("notifications/tasks/status", raw)
			}
		}
	}
}

// endedWithout is the error of a task that has ended without a result of its tool, for which some
// servers have an empty one.
func (s *session) endedWithout(ctx context.Context, result json.RawMessage, about any) error {
	var of, task struct {
		Content json.RawMessage `json:"content"`
		ID      string          `json:"taskId"`
		Status  string          `json:"status"`
		Message string          `json:"statusMessage"`
	}
	if json.Unmarshal(result, &of) != nil || of.Content != nil {
		return nil
	}
	raw, err := s.ask(ctx, "tasks/get", about)
	if err != nil || json.Unmarshal(raw, &task) != nil || task.Status != "cancelled" && task.Status != "failed" {
		return nil
	}
	return &client.TaskError{Task: client.Task{ID: task.ID, Status: task.Status, Message: task.Message}}
}

// result waits for the result of a task, again if the wait breaks: the task continues.
func (s *session) result(ctx context.Context, about any) (json.RawMessage, error) {
	for failures := 1; ; failures++ {
		began := time.Now()
		result, err := s.ask(ctx, "tasks/result", about)
		if time.Since(began) > time.Minute {
			failures = 1
		}
		if err == nil || ctx.Err() != nil || failures >= mostFailures || !errors.As(s.failed(ctx, err), new(*client.TransportError)) {
			return result, err
		}
		select {
		case <-time.After(defaultPoll):
		case <-ctx.Done():
		case <-s.over:
			return nil, err
		}
	}
}
