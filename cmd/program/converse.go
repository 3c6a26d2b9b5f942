package program

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sourcegraph/jsonrpc2"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/term"
)

// beginning starts something that may ask: a tool, prompt or resource.
type beginning func(context.Context, *cli.Command, *client.Client, client.Handlers) (*outcome, error)

// conversation completes a command that has begin start something.
func (p *program) conversation(c *cli.Command, kind string, begin beginning) *cli.Command {
	c.Description += "\n\n" + exitCodesHelp
	c.Flags = append(c.Flags,
		p.outputFlag(),
		p.stringFlag("save", "keep the position in `FILE` all the time, not only when interrupted", ""),
		p.stringFlag("resume", "continue the "+c.Name+" saved as `NAME`, or in a file", ""))
	c.Flags = slices.Concat(c.Flags, p.answeringFlags(c.Name), p.serverChoice())
	c.Action = func(ctx context.Context, c *cli.Command) error {
		switch resumed := c.String("resume") != ""; {
		case resumed && (c.NArg() > 0 || c.String("json") != ""):
			return p.usage(c, "--resume has the arguments the call was made with; give it alone")
		case resumed && c.Bool("detach"):
			return p.usage(c, "--detach is for a call that begins; one that is saved is detached")
		case !resumed && c.NArg() == 0:
			return p.usage(c, "which %s? %s %ss lists them", kind, p.self, kind)
		}
		return p.converse(ctx, c, begin)
	}
	return c
}

// mayReplace fails if there is something at the path of --save that would be lost when a call is
// saved there, and removed when it is over. Only the call resumed from there may be replaced.
func (p *program) mayReplace(path, resumed string) error {
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	from, _ := os.Stat(resumed)
	if err == nil && (there.Mode().IsRegular() && there.Size() == 0 || os.SameFile(there, from)) {
		return nil
	}
	other, err := state.Load(path)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s has a call that is not over. Continue it with:\n  %s %s --resume %s\nor forget it, and what it did stays done:\n  %s\nor save this one elsewhere",
		path, p.self, verbs[other.Position.Kind()], quote(state.Given(path)), p.forgetLine(path))
}

// converse has begin start something, or resumes what --resume names. It saves where that
// stands if it is stopped, and prints its outcome.
func (p *program) converse(ctx context.Context, c *cli.Command, begin beginning) error {
	saved, resumed, save := new(state.Call), "", c.String("save")
	if name := c.String("resume"); name != "" {
		resumed = state.Path(name)
		var err error
		if saved, err = state.Load(resumed); err != nil {
			return p.notSaved(err)
		}
	}
	before := *saved
	if err := p.mayReplace(save, resumed); err != nil {
		return p.usage(c, "--save would not keep what is there: %w", err)
	}
	if save != "" { // before anything is done
		if err := state.CanSave(save); err != nil {
			return p.usage(c, "--save: nothing can be saved there: %w", err)
		}
	}
	if to := c.String("to"); to != "" {
		if err := canWrite(to); err != nil {
			return p.usage(c, "--to: nothing can be written there: %w", err)
		}
	}
	asker, handlers, err := p.newAsker(c)
	if err != nil {
		return err
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // as servers do: who reads the result may be gone, and the call stays
	p.bar = term.NewBar(p.stderr, p.name)
	defer p.bar.Clear()
	if p.bar != nil {
		handlers.OnProgress = p.bar.Show
	}
	handlers.OnPosition = func(_ context.Context, position client.Position) error {
		if saved.Position = position; asker.detach {
			return errDetached
		}
		now := *saved
		if resumed != "" {
			if sameRound(before.Position, position) {
				now.URL, now.Stdio, now.Dir = before.URL, before.Stdio, before.Dir // no other server has taken it up
			}
			_ = now.Save(resumed) // or elsewhere, when it stops
		}
		if save != "" {
			return now.Save(save)
		}
		return nil
	}
	return p.withClient(ctx, c, saved, func(ctx context.Context, connection *client.Client) error {
		var result *outcome
		if resumed != "" {
			result, err = resume(ctx, connection, saved, handlers)
		} else {
			result, err = begin(ctx, c, connection, handlers)
		}
		p.bar.Clear()
		switch {
		case errors.Is(err, errDetached):
			return p.detached(c, saved)
		case err != nil:
			return p.interrupted(c, saved, &before, resumed, asker.refused, err)
		}
		err = p.end(c, result, asker.refused)
		if (errors.Is(err, errOutput) || err != nil && exitCode(err) == exitUsage) && begun(saved.Position) {
			// The result cannot be put where it was to go: keep the way to it.
			return p.interrupted(c, saved, &before, resumed, false, &client.InterruptedError{Position: saved.Position, Err: err})
		}
		if token := result.undoToken(); token != "" {
			if saved.Undo && err == nil {
				err = errLeft
			}
			return p.notUndone(c, saved, cmp.Or(save, resumed), token, err)
		}
		forget(save, resumed)
		return err
	})
}

// notUndone saves a call that has ended as err says, so that what is left of it is undone by its token, at path
// or where this user's calls are.
func (p *program) notUndone(c *cli.Command, saved *state.Call, path, token string, err error) error {
	saved.Undo = true
	saved.Position = client.Position{Version: 1, Dialect: "saga", Tool: cmp.Or(saved.Position.Subject(), c.Args().First()), Token: token}
	path, failure := p.keep(saved, path)
	if failure != nil {
		return &exitError{exitFailed, errors.Join(err, failure)}
	}
	p.sayLeft(path)
	return err
}

// errLeft is the error of a command that was to undo something and has not undone all of it. The server has said what.
var errLeft = &exitError{exitFailed, errors.New("")}

// sayLeft says how to have undone what is left of the call saved at path.
func (p *program) sayLeft(path string) {
	p.say("What was not undone can be tried again with:\n  %s cancel %s", p.self, quote(state.Given(path)))
}

func resume(ctx context.Context, connection *client.Client, saved *state.Call, handlers client.Handlers) (*outcome, error) {
	position := saved.Position
	if saved.Undo {
		result, err := connection.Cancel(ctx, position)
		return ofTool(result), err
	}
	switch position.Kind() {
	case "prompt":
		result, err := connection.ResumePrompt(ctx, position, handlers)
		return ofPrompt(result), err
	case "resource":
		result, err := connection.ResumeResource(ctx, position, handlers)
		return ofResource(result), err
	}
	result, err := connection.Resume(ctx, position, handlers)
	return ofTool(result), err
}

// verbs are the commands by the kind of what they begin.
var verbs = map[string]string{"tool": "call", "prompt": "get", "resource": "read"}

// begun reports whether the server has begun, so that there is something to resume.
func begun(position client.Position) bool {
	return position.Token != "" || position.Task != "" || position.Round > 0
}

// unanswered reports whether the server may have begun a call and, as of a cause, did not get to say so.
// By the key of the position it knows the call again.
func unanswered(position client.Position, cause error) bool {
	if position.Key == "" || position.Dialect == "" || position.Dialect == "mcp-sessions" {
		return false
	}
	refusal, refused := errors.AsType[*client.Error](cause)
	lost, isLost := errors.AsType[*client.TransportError](cause)
	switch {
	case refused:
		return refusal.Code == -31503 // the server cannot say how far it came
	case isLost:
		return lost.Sent && (lost.Status == 0 || lost.Status >= http.StatusInternalServerError)
	}
	return exitCode(cause) == exitInterrupted
}

// interrupted saves where a call stands and says what to do now. resumed is the file
// that the call was resumed from, and before what that held, or empty.
func (p *program) interrupted(c *cli.Command, saved, before *state.Call, resumed string, declined bool, err error) error {
	stopped, ok := errors.AsType[*client.InterruptedError](err)
	if !ok {
		return err
	}
	cause, position := p.withAdvice(stopped.Err), stopped.Position
	kind := position.Kind()
	refusal, _ := errors.AsType[*client.Error](cause)
	switch {
	case exitCode(cause) == exitInterrupted:
		cause = &exitError{exitInterrupted, errors.New("stopped")}
	case declined && kind != "tool" && refusal != nil:
		// A prompt or resource has no result that says so, and has changed nothing.
		return &exitError{exitDeclined, fmt.Errorf("the %s is not given: %s", kind, refusal.Message)}
	case errors.As(cause, new(*client.TaskError)):
		forget(c.String("save"), resumed)
		return &exitError{exitServer, cause}
	}
	if !begun(position) && !unanswered(position, cause) {
		return p.notBegun(c, kind, cause)
	}
	saved.Position = position
	text := ""
	if refusal = tokenRefused(cause); refusal != nil {
		text = p.refused(saved, refusal)
	}
	if resumed != "" && (refusal != nil || sameRound(before.Position, position)) {
		saved.URL, saved.Stdio, saved.Dir = before.URL, before.Stdio, before.Dir // it stays a call of the server that it is from
	}
	path, err := p.keep(saved, cmp.Or(c.String("save"), resumed))
	switch {
	case err != nil:
		return &exitError{exitCode(cause), fmt.Errorf("%w\n%w", cause, err)}
	case refusal != nil:
		return &exitError{exitServer, fmt.Errorf("%s%sYour answers are kept in %s\nuntil you forget them with: %s", text, p.startAgain(position, path), path, p.forgetLine(path))}
	}
	return &exitError{exitCode(cause), fmt.Errorf("%w\n%s", cause, p.howToResume(saved, path))}
}

// sameRound reports whether no server has gone on from a to b.
func sameRound(a, b client.Position) bool {
	return a.Round == b.Round && a.Token == b.Token && a.Task == b.Task
}

// keep saves a call that is not over, at path or where this user's calls are, and returns where.
func (p *program) keep(saved *state.Call, path string) (string, error) {
	var err error
	if path == "" {
		path, err = state.NewPath(time.Now())
	}
	if err == nil {
		err = saved.Save(path)
	}
	if other, failure := state.NewPath(time.Now()); err != nil && failure == nil && saved.Save(other) == nil {
		p.remark("it could not be saved in %s: %v", plain.Line(path), err)
		path, err = other, nil
	}
	if err == nil {
		_, _ = state.List(time.Now()) // so that old ones go
		return path, nil
	}
	err = fmt.Errorf("the call could not be saved: %w", err)
	if saved.Position.Task != "" {
		where := "--server " + quote(saved.URL)
		if saved.Stdio != "" {
			where = "--stdio " + quote(saved.Stdio)
		}
		err = fmt.Errorf("%w\nThe server continues it, as a task. See how far it is with:\n  %s tasks watch %s %s", err, p.self, where, quote(saved.Position.Task))
	} else if raw, failure := json.Marshal(saved); failure == nil {
		err = fmt.Errorf("%w\nTo come back to it, put this line into a file that only you can read, and continue with %s %s --resume FILE:\n%s", err, p.self, verbs[saved.Position.Kind()], raw)
	}
	return "", err
}

// forget removes the files of a call that is over; those without a name are none.
func forget(paths ...string) {
	for _, path := range paths {
		if path != "" {
			_ = os.Remove(path)
		}
	}
}

func (p *program) forgetLine(path string) string {
	return p.self + " calls rm " + quote(state.Given(path))
}

// detached saves a call that continues without this program.
func (p *program) detached(c *cli.Command, saved *state.Call) error {
	path, err := p.keep(saved, c.String("save"))
	if err != nil {
		return failed(err)
	}
	p.say("%s", p.howToResume(saved, path))
	fmt.Fprintln(p.stdout, state.Given(path))
	return nil
}

// howToResume says how to come back to a call that is saved.
func (p *program) howToResume(saved *state.Call, path string) string {
	name := quote(state.Given(path))
	if saved.Position.Task != "" {
		return fmt.Sprintf(`The server continues the call, as a task. Come back to it with:
  %[1]s call --resume %[2]s     to answer what it asks, and wait for its result
  %[1]s tasks watch %[2]s       to see how far it is
  %[1]s tasks cancel %[2]s      to have it ended`, p.self, name)
	}
	if !begun(saved.Position) {
		return fmt.Sprintf(`The server may have begun the call, and has not answered. The call is saved. Continue it with:
  %[1]s %[2]s --resume %[3]s     which sends the same request again: a server without a ledger begins anew
It cannot be cancelled before. If you leave it, a server with a ledger undoes what it has done, when the
time for an answer is over (11 minutes, unless it is set up otherwise).`, p.self, verbs[saved.Position.Kind()], name)
	}
	text := fmt.Sprintf("The call is saved. Continue with:\n  %s %s --resume %s", p.self, verbs[saved.Position.Kind()], name)
	if saved.Position.Dialect == "saga" {
		text += fmt.Sprintf("\nor have what it did undone:\n  %s cancel %s", p.self, name)
	}
	return text
}

// askedOldWay finds the requests by which servers ask in older revisions of MCP, and what they say of
// tools that must be tasks of one.
var askedOldWay = regexp.MustCompile(`elicitation/create|sampling/createMessage|roots/list|task augmentation`)

// olderAdvice is what to add to a server's error if it seems to have asked by a request, though
// what was spoken has none: the server decides that for itself, whatever revision it has agreed to.
func olderAdvice(c *cli.Command, text string) string {
	if c.String("protocol") != "" || strings.Contains(text, "--protocol") || !askedOldWay.MatchString(text) {
		return ""
	}
	return "\nIf it asks as servers of older revisions of MCP do, speak one of these with it: --protocol 2025-11-25"
}

// notBegun adds to the reason why the server has not begun what to do about it. There is
// nothing to keep.
func (p *program) notBegun(c *cli.Command, kind string, cause error) error {
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

// refused says what has become of a call that the server does not continue.
func (p *program) refused(saved *state.Call, refusal *client.Error) string {
	position := saved.Position
	if position.Task != "" {
		return fmt.Sprintf(`The server does not know the task, at
%s.
Servers keep tasks for a limited time. The task may also belong to another user or server.
It said: %s
`, saved.URL+saved.Stdio, refusal.Message)
	}
	text := fmt.Sprintf(`The server does not continue this call, at
%s.
Most often it has waited for too long: a server takes answers for some minutes only, unless
it is set up otherwise. The call may also have been continued from elsewhere, and have ended
and acted; or it is another user's than who asks now; or the server has been given other keys,
or is another one than began the call.
It said: %s
`, saved.URL+saved.Stdio, refusal.Message)
	if position.Tool != "" {
		text += `This time the tool has not run, and nothing was undone. What it has done otherwise, if
anything, stays as it is, unless the server has undone it already.
`
	}
	return text
}

// startAgain says how to begin a call anew that the server does not continue, and how not to act twice. path is where it is
// saved, or empty if it is known not to be cancelled.
func (p *program) startAgain(position client.Position, path string) string {
	if position.Task != "" {
		return ""
	}
	look := ""
	if position.Tool != "" {
		look = "To start again may do everything twice. Look first what has become of this call: who runs\nthe server sees it in its ledger"
		if position.Dialect == "saga" && path != "" {
			look += fmt.Sprintf(", and if the server still knows the call, this undoes it:\n  %s cancel %s", p.self, quote(state.Given(path)))
		}
		look += "\n"
	}
	return fmt.Sprintf("%sStart again with %s %s %s\n", look, p.self, verbs[position.Kind()], quote(position.Subject()))
}
