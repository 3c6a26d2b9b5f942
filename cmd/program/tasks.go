package program

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/term"
	"github.com/mcpsaga/mcpsaga/steps"
)

func (p *program) tasksCommand() *cli.Command {
	return &cli.Command{
		Name:  "tasks",
		Usage: "list the calls that have become tasks; watch, answer and end them",
		Description: `A task is a call that its server works on by itself (MCP 2026-07-28, tasks extension).
Calls become tasks by {program} call, with --detach or without, if the server makes them so.

Without a command, {program} tasks lists those of the saved calls, and asks their servers how
far they are. An access token and headers are sent only to the server of --server; servers
that are commands are asked only if --stdio names them.

NAME is that of a saved call, a file, or the id of a task of --server or --stdio, which
another user may have begun.

Examples:
   {program} tasks
   {program} tasks watch 20260728-150000-ABCDEF
   {program} tasks answer 20260728-150000-ABCDEF --answers answers.json
   {program} tasks result 20260728-150000-ABCDEF --output json
   {program} tasks cancel 0f8c6b1e --server https://tools.example.com/mcp`,
		Flags:  append([]cli.Flag{p.outputFlag()}, p.serverChoice()...),
		Action: p.listTasks,
		Commands: []*cli.Command{
			p.taskCommand("watch", "follow a task until it asks something or ends", nil, p.watchTask),
			p.taskCommand("answer", "answer what a task asks, without waiting for its end", p.answeringFlags("answer"), p.answerTask),
			p.taskCommand("result", "print the result of a task that has ended", []cli.Flag{
				p.outputFlag(),
				p.boolFlag("wait", "wait for the end"),
			}, p.taskResult),
			p.taskCommand("cancel", "have a task ended", []cli.Flag{p.outputFlag()}, p.cancelTask),
		},
	}
}

func (p *program) taskCommand(name, usage string, flags []cli.Flag, do func(context.Context, *cli.Command, *client.Client, *state.Call, string) error) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "NAME", Flags: append(flags, p.serverChoice()...),
		Description: exitCodesHelp,
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() != 1 {
				return p.usage(c, "which task? %s tasks lists those of saved calls", p.self)
			}
			saved, path, err := p.namedTask(c)
			if err != nil {
				return err
			}
			return p.withClient(ctx, c, saved, func(ctx context.Context, connection *client.Client) error {
				return do(ctx, c, connection, saved, path)
			})
		},
	}
}

// namedTask returns the task that the user means: of a saved call, whose file is path, or
// else the one with that id of the server that is named.
func (p *program) namedTask(c *cli.Command) (saved *state.Call, path string, err error) {
	name := c.Args().First()
	path = state.Path(name)
	saved, err = state.Load(path)
	switch {
	case errors.Is(err, state.ErrMissing) && !state.NewName.MatchString(name):
		return &state.Call{Position: client.Position{Task: name}}, "", nil
	case err != nil:
		return nil, "", p.notSaved(err)
	case saved.Position.Task == "":
		return nil, "", &exitError{exitUsage, fmt.Errorf("the saved call %s is no task; resume it by %s %s --resume %s",
			state.Given(path), p.self, verbs[saved.Position.Kind()], quote(state.Given(path)))}
	}
	return saved, path, nil
}

// leaving are handlers that answer nothing, of a user who only looks.
func leaving(onProgress func(client.Progress)) client.Handlers {
	return client.Handlers{
		Elicit:     func(context.Context, *client.Request) (*client.ElicitResult, error) { return nil, client.ErrPause },
		Sample:     func(context.Context, *client.Request) (*steps.SampleResult, error) { return nil, client.ErrPause },
		Roots:      func(context.Context, *client.Request) ([]steps.Root, error) { return nil, client.ErrPause },
		OnProgress: onProgress,
	}
}

func (p *program) watchTask(ctx context.Context, c *cli.Command, connection *client.Client, saved *state.Call, _ string) error {
	var shown string
	_, err := connection.Resume(ctx, saved.Position, leaving(func(progress client.Progress) {
		if text := term.Progress(progress); text != shown {
			shown = text
			p.print(time.Now().Format("15:04:05 ") + text)
		}
	}))
	if err != nil {
		return p.taskStopped(c, saved, err)
	}
	return nil
}

// taskStopped says why a task was followed no longer.
func (p *program) taskStopped(c *cli.Command, saved *state.Call, err error) error {
	if stopped, ok := errors.AsType[*client.InterruptedError](err); ok && exitCode(stopped.Err) == exitInterrupted && errors.Is(err, client.ErrPause) {
		var b strings.Builder
		for _, step := range stopped.Position.Pending() {
			fmt.Fprintf(&b, "\n  %s: %s", plain.Short(step.StepID, maxCell), plain.Short(waitsFor(step), 2*maxCell))
		}
		return &exitError{exitNeedsAnswer, fmt.Errorf("the task asks:%s\nAnswer with: %s tasks answer %s", b.String(), p.self, quote(c.Args().First()))}
	}
	return p.taskFailed(saved, err)
}

func (p *program) taskFailed(saved *state.Call, err error) error {
	err = causeOf(err)
	if errors.As(err, new(*client.TaskError)) {
		return &exitError{exitServer, err}
	}
	if refusal := tokenRefused(err); refusal != nil {
		return &exitError{exitServer, errors.New(strings.TrimSpace(p.refused(saved, refusal)))}
	}
	return p.serverFailed(err)
}

// causeOf is why a call was interrupted.
func causeOf(err error) error {
	if stopped, ok := errors.AsType[*client.InterruptedError](err); ok {
		return stopped.Err
	}
	return err
}

// errAnswered ends the following of a task that has been answered.
var errAnswered = errors.New("answered")

func (p *program) answerTask(ctx context.Context, c *cli.Command, connection *client.Client, saved *state.Call, path string) error {
	_, handlers, err := p.newAsker(c)
	if err != nil {
		return err
	}
	following, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	before, asked := saved.Position, map[string]bool{}
	handlers.OnPosition = func(_ context.Context, position client.Position) error {
		saved.Position = position
		if path == "" {
			return nil
		}
		return saved.Save(path)
	}
	status := ""
	handlers.OnProgress = func(progress client.Progress) {
		for _, step := range progress.Task.Steps {
			asked[step.StepID] = true
		}
		if status = progress.Task.Status; status != "input_required" {
			stop(errAnswered)
		}
	}
	result, err := connection.Resume(following, saved.Position, handlers)
	gave := 0 // with those that were lost the last time
	for i, answer := range saved.Position.Answers {
		if i >= len(before.Answers) || asked[answer.StepID] {
			gave++
		}
	}
	switch {
	case gave == 0 && (result != nil || errors.Is(err, errAnswered)):
		since := ""
		if len(before.Pending()) > 0 {
			since = " any more, as another client has answered"
		} else if len(before.Steps) > 0 {
			since = " any more, as it has your answer or another's"
		}
		return failed(fmt.Errorf("the task asks nothing%s: it is %s", since, strings.ReplaceAll(status, "_", " ")))
	case result != nil || errors.Is(err, errAnswered):
		p.remark("sent %s; the task is %s", count(gave, "answer"), strings.ReplaceAll(status, "_", " "))
		return nil
	case errors.Is(err, client.ErrPause):
		if err = causeOf(err); exitCode(err) == exitInterrupted {
			err = &exitError{exitInterrupted, errors.New("stopped")}
		}
		return fmt.Errorf("%w\n%s sent before that; the task waits for the rest", err, count(gave, "answer"))
	}
	return p.taskStopped(c, saved, err)
}

func (p *program) taskResult(ctx context.Context, c *cli.Command, connection *client.Client, saved *state.Call, _ string) error {
	if !c.Bool("wait") {
		task, err := connection.Task(ctx, saved.Position)
		if err != nil {
			return p.taskFailed(saved, err)
		}
		if !task.Ended() {
			return failed(fmt.Errorf("the task has not ended: it is %s; wait for it with --wait", term.Progress(client.Progress{Message: task.Message, Task: task})))
		}
	}
	p.bar = term.NewBar(p.stderr, p.name)
	result, err := connection.Resume(ctx, saved.Position, leaving(p.bar.Show))
	p.bar.Clear()
	if err != nil {
		return p.taskStopped(c, saved, err)
	}
	return p.end(c, ofTool(result), false)
}

func (p *program) cancelTask(ctx context.Context, c *cli.Command, connection *client.Client, saved *state.Call, path string) error {
	result, err := connection.Cancel(ctx, saved.Position)
	ended, isTask := errors.AsType[*client.TaskError](err)
	switch {
	case isTask && ended.Task.Status == "cancelled":
		p.remark("%s", plain.Line(ended.Error()))
	case err != nil:
		return p.taskFailed(saved, err)
	}
	forget(path)
	if result == nil {
		return nil
	}
	p.remark("it was too late: the task has completed, and this is its result")
	return p.end(c, ofTool(result), false)
}

type taskRow struct {
	Name   string    `json:"name"`
	Task   string    `json:"taskId"`
	Tool   string    `json:"tool,omitempty"`
	Server string    `json:"server"`
	Saved  time.Time `json:"saved"`
	// Status is empty if the server was not asked, or did not say.
	Status  string     `json:"status,omitempty"`
	Message string     `json:"message,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	Error   string     `json:"error,omitempty"`
}

// asking is how many servers are asked at once, and askFor how long each may take unless the user is to sign in.
const (
	asking = 8
	askFor = 10 * time.Second
)

func (p *program) listTasks(ctx context.Context, c *cli.Command) error {
	// Credentials are for the server that the user has named.
	var chosen state.Call
	var named *client.Client
	if c.String("server") != "" || c.String("stdio") != "" {
		var err error
		if named, err = p.connect(ctx, c, &chosen); err != nil {
			return err
		}
		defer named.Close()
	}
	saved, err := state.List(time.Now())
	if err != nil {
		return failed(err)
	}
	limit := askFor
	if c.Bool("login") {
		limit = c.Duration("timeout")
	}
	var wait sync.WaitGroup
	places := make(chan struct{}, asking)
	var rows []*taskRow
	for _, s := range saved {
		if s.Err != nil || s.Call.Position.Task == "" || named != nil && (chosen.URL != s.Call.URL || chosen.Stdio != s.Call.Stdio) {
			continue
		}
		row := &taskRow{Name: s.Name, Task: s.Call.Position.Task, Tool: s.Call.Position.Tool, Server: s.Call.URL + s.Call.Stdio, Saved: s.At}
		rows = append(rows, row)
		connection := named
		if named == nil {
			if s.Call.Stdio != "" {
				continue
			}
			connection = client.New(&client.HTTP{URL: s.Call.URL}, client.Options{Name: p.name, Retries: -1})
			defer connection.Close()
		}
		wait.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			row.ask(ctx, connection, s.Call.Position, limit)
		})
	}
	wait.Wait()
	return printRows(p, c, rows, "None of the saved calls is a task.", "NAME\tTOOL\tSERVER\tSAVED\tKEPT\tSTATE", func(row *taskRow) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", plain.Line(row.Name), cell(row.Tool), cell(row.Server), ago(row.Saved), until(row.Expires), row.state())
	})
}

func (r *taskRow) ask(ctx context.Context, connection *client.Client, position client.Position, limit time.Duration) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	task, err := connection.Task(ctx, position)
	if err != nil {
		r.Error = err.Error()
		switch {
		case tokenRefused(err) != nil:
			r.Error = "the server does not know it any more"
		case errors.Is(err, context.DeadlineExceeded):
			r.Error = fmt.Sprintf("the server did not answer within %v: does it run?", limit)
		}
		return
	}
	r.Status, r.Message = task.Status, task.Message
	if len(task.Steps) > 0 {
		r.Message = waitsFor(task.Steps[0])
	}
	if task.TTL > 0 && !task.Created.IsZero() {
		r.Expires = new(task.Created.Add(task.TTL))
	}
}

func (r *taskRow) state() string {
	switch {
	case r.Error != "":
		return "? " + plain.Short(r.Error, 2*maxCell)
	case r.Status == "":
		return "not asked; name its server with --stdio"
	case r.Status == "input_required":
		return "asks: " + cell(r.Message)
	case r.Message != "":
		return r.Status + ": " + cell(r.Message)
	}
	return r.Status
}
