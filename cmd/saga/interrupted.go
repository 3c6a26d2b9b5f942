package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sourcegraph/jsonrpc2"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/self"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
)

// verbs are the commands by the kind of what they begin.
var verbs = map[string]string{"tool": "call", "prompt": "get", "resource": "read"}

// interrupted saves where a call stands and says what to do now. resumed is the file
// that the call was resumed from, or empty.
func (p *program) interrupted(c *cli.Command, saved *state.Call, resumed string, declined bool, err error) error {
	stopped, ok := errors.AsType[*client.InterruptedError](err)
	if !ok {
		return err
	}
	cause, position := stopped.Err, stopped.Position
	var refusal *client.Error
	switch {
	case exitCode(cause) == exitInterrupted:
		cause = &exitError{exitInterrupted, errors.New("stopped")}
	case declined && position.Tool == "" && errors.As(cause, &refusal):
		// A prompt or resource has no result that says so, and has changed nothing.
		return &exitError{exitDeclined, fmt.Errorf("the %s is not given: %s", position.Kind(), refusal.Message)}
	}
	if errors.As(cause, new(*client.TaskError)) {
		forget(c.String("save"), resumed)
		return &exitError{exitServer, cause}
	}
	if !begun(position) {
		// The server had not begun, so there is nothing to keep.
		return p.beginAdvice(c, position.Kind(), p.withAdvice(cause))
	}
	path, err := cmp.Or(c.String("save"), resumed), error(nil)
	if path == "" {
		path, err = state.NewPath(time.Now())
	}
	saved.Position = position
	text := ""
	if refusal = tokenRefused(cause); refusal != nil {
		text = p.refusedText(saved, path, resumed, refusal)
	}
	if err == nil {
		err = saved.Save(path)
	}
	if err != nil {
		return &exitError{exitCode(cause), fmt.Errorf("%w\nThe call could not be saved: %w%s", cause, err, p.taskByID(saved))}
	}
	state.Clean(time.Now())
	if refusal != nil {
		return &exitError{exitServer, errors.New(text)}
	}
	cause = p.withAdvice(cause)
	if position.Task != "" {
		return &exitError{exitCode(cause), fmt.Errorf("%w\n%s", cause, p.taskAdvice(path))}
	}
	verb := verbs[position.Kind()]
	text = fmt.Sprintf("The call is saved. Go on with:\n  %s %s --resume %s", p.self, verb, self.Quote(state.Given(path)))
	if position.Dialect == "saga" {
		text += fmt.Sprintf("\nor have what it did undone:\n  %s cancel %s", p.self, self.Quote(state.Given(path)))
	}
	return &exitError{exitCode(cause), fmt.Errorf("%w\n%s", cause, text)}
}

// forget removes the files of a call that is over; those without a name are none.
func forget(paths ...string) {
	for _, path := range paths {
		if path != "" {
			_ = os.Remove(path)
		}
	}
}

// begun reports whether there is something to go on with.
func begun(position client.Position) bool {
	return position.Token != "" || position.Task != "" || position.Round > 0
}

// detached saves a call that is to go on without this program.
func (p *program) detached(c *cli.Command, saved *state.Call) error {
	path, err := c.String("save"), error(nil)
	if path == "" {
		path, err = state.NewPath(time.Now())
	}
	if err == nil {
		err = saved.Save(path)
	}
	if err != nil {
		return failed(fmt.Errorf("the call could not be saved: %w%s", err, p.taskByID(saved)))
	}
	state.Clean(time.Now())
	if saved.Position.Task != "" {
		p.say("saga: %s", p.taskAdvice(path))
	} else {
		p.say("saga: the call waits for answers. Go on with:\n  %s call --resume %s", p.self, self.Quote(state.Given(path)))
	}
	fmt.Fprintln(p.stdout, state.Given(path))
	return nil
}

// taskByID is how to come back to a task that could not be saved, or empty for what is none.
func (p *program) taskByID(saved *state.Call) string {
	if saved.Position.Task == "" {
		return ""
	}
	where := " --server " + self.Quote(saved.URL)
	if saved.Stdio != "" {
		where = " --stdio " + self.Quote(saved.Stdio)
	}
	return fmt.Sprintf("\nThe server goes on with it, as a task. See how far it is with:\n  %s tasks watch%s %s", p.self, where, self.Quote(saved.Position.Task))
}

func (p *program) taskAdvice(path string) string {
	name := self.Quote(state.Given(path))
	return fmt.Sprintf(`the server goes on with the call, as a task. Come back to it with:
  %[1]s call --resume %[2]s     to answer what it asks, and wait for its result
  %[1]s tasks watch %[2]s       to see how far it is
  %[1]s tasks cancel %[2]s      to have it ended`, p.self, name)
}

// beginAdvice adds to a server's refusal to begin what to do about it.
func (p *program) beginAdvice(c *cli.Command, kind string, cause error) error {
	refusal, ok := errors.AsType[*client.Error](cause)
	switch {
	case !ok:
	case olderAdvice(c, refusal.Message) != "":
		return fmt.Errorf("%w%s", cause, olderAdvice(c, refusal.Message))
	case refusal.Code == jsonrpc2.CodeInvalidParams:
		return fmt.Errorf("%w\n%s %ss lists what the server has", cause, p.self, kind)
	case refusal.Code == jsonrpc2.CodeMethodNotFound:
		return fmt.Errorf("%w\nThe server has no %ss, or none over the protocol of --protocol", cause, kind)
	}
	return cause
}

// tokenRefused returns the server's refusal if the cause is that it does not take the
// token or the answers: to send them again would meet the same.
func tokenRefused(cause error) *client.Error {
	if refusal, ok := errors.AsType[*client.Error](cause); ok && refusal.Code == jsonrpc2.CodeInvalidParams {
		return refusal
	}
	return nil
}

// refusedText tells what has become of a call that the server does not go on with. The
// call stays one of the server that it was resumed from: another one may know it.
func (p *program) refusedText(saved *state.Call, path, resumed string, refusal *client.Error) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	position, again := saved.Position, p.again(saved)
	if position.Task != "" {
		return p.unknownTask(saved, refusal) + fmt.Sprintf("\nForget it with: %s calls rm %s", p.self, self.Quote(state.Given(path)))
	}
	say(`The server does not go on with this call. Most often it has waited for too long: a
server takes answers for some minutes only, unless it is told otherwise. It may also
have been given other keys, or be another server than the one that began the call.
It said: %s`, refusal.Message)
	if position.Tool != "" {
		say(`
This time the tool has not run. What it had done in earlier turns, if anything, stays
as it is, unless the server has undone it already.`)
	}
	say("\nStart again with:\n  %s", again)
	if before, err := state.Load(resumed); err == nil && (before.URL != saved.URL || before.Stdio != saved.Stdio) {
		saved.URL, saved.Stdio = before.URL, before.Stdio
		say("or, as the call was begun at another server, ask that one:\n  %s %s --resume %s", p.self, verbs[position.Kind()], self.Quote(state.Given(path)))
	}
	say("\nYour answers are kept in %s", path)
	fmt.Fprintf(&b, "until you forget them with: %s calls rm %s", p.self, self.Quote(state.Given(path)))
	return b.String()
}

// unknownTask tells of a task that the server knows nothing of.
func (p *program) unknownTask(saved *state.Call, refusal *client.Error) string {
	return fmt.Sprintf(`The server does not know the task, at
%s.
Servers keep tasks for a limited time. The task may also belong to another user or server.
It said: %s`, saved.URL+saved.Stdio, refusal.Message)
}

// again is the command line that makes the call from its beginning.
func (p *program) again(saved *state.Call) string {
	position := saved.Position
	line := p.self + " " + verbs[position.Kind()] + " " + self.Quote(position.Subject())
	switch {
	case len(position.Arguments) == 0:
	case position.Tool != "":
		var compact bytes.Buffer
		if json.Compact(&compact, position.Arguments) == nil {
			line += " --json " + self.Quote(compact.String())
		}
	default:
		line += promptWords(position.Arguments)
	}
	switch {
	case saved.Stdio != "":
		line += " --stdio " + self.Quote(saved.Stdio)
	case saved.URL != "" && saved.URL != defaultServer:
		line += " --server " + self.Quote(saved.URL)
	}
	return line
}

// refusedCancel tells that a call could not be cancelled, and what that means.
func (p *program) refusedCancel(saved *state.Call, path string, refusal *client.Error) string {
	return fmt.Sprintf(`The server does not know this call any more, so nothing was undone. Most often it has waited
for too long, or the server has other keys than the one that began the call, at
%s.
It said: %s
What the tool had done, if anything, stays as it is. %s calls rm %s forgets the call.`,
		saved.URL+saved.Stdio, refusal.Message, p.self, self.Quote(state.Given(path)))
}

func (p *program) cancelCommand() *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "end a saved call and undo what its tool has done",
		ArgsUsage: "NAME",
		Description: `Ends a call that was saved when it was stopped, instead of going on with it. NAME is one that
saga calls lists, or a file. The server undoes what the tool has done so far, and says what
could not be undone. Then the call is forgotten; if something is left, it is kept, so that
the command can be given again.

Example:
   saga cancel 20260728-150000-ABCDEF`,
		Flags: append([]cli.Flag{stringFlag("output", "text, or json for the whole result", "text")}, serverChoice()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() != 1 {
				return p.usage(c, "which saved call? %s calls lists them", p.self)
			}
			path := state.Path(c.Args().First())
			saved, err := state.Load(path)
			if err != nil {
				return p.notSaved(err)
			}
			connection, err := p.connect(c, saved, 0)
			if err != nil {
				return err
			}
			defer connection.Close()
			if saved.Position.Task != "" {
				return p.cancelTask(ctx, c, connection, saved, path)
			}
			result, err := connection.Cancel(ctx, saved.Position)
			if refusal := tokenRefused(err); refusal != nil {
				return &exitError{exitServer, errors.New(p.refusedCancel(saved, path, refusal))}
			}
			if err != nil {
				return p.serverFailed(err)
			}
			if !result.Outstanding() {
				forget(path)
			}
			end, _ := p.tool(result, nil)
			return end(c, false)
		},
	}
}
