package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/answers"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/model"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/state"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/steps"
)

func answeringFlags(verb string) []cli.Flag {
	return []cli.Flag{
		stringFlag("answers", "answer every question from a JSON `FILE` (- for standard input)", ""),
		&cli.IntFlag{Name: "max-rounds", Usage: "how often the server may ask before the " + verb + " stops", Value: 20, Sources: env("max-rounds")},
		listFlag("root", "a `DIR` to name when the server asks where you work"),
		stringFlag("model", "the `NAME` of the model that answers sampling steps", ""),
		stringFlag("model-provider", "openai (and whatever is compatible), anthropic, or none", ""),
		stringFlag("model-url", "the base `URL` of the model's API", ""),
		stringFlag("model-key", "the API `KEY`; better given as SAGA_MODEL_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY", ""),
		boolFlag("model-hints", "let the server's hints choose another model of the provider"),
		boolFlag("yes-sampling", "let the model answer without asking you first"),
	}
}

// conversation completes a command that has begin start something that may ask: a
// tool, prompt or resource.
func (p *program) conversation(c *cli.Command, kind string, begin func(context.Context, *cli.Command, *client.Client, client.Handlers) (ending, error)) *cli.Command {
	c.Description += "\n\n" + exitCodesHelp
	c.Flags = append(c.Flags,
		stringFlag("output", "text, or json for the whole result", "text"),
		stringFlag("save", "keep the position in `FILE` all the time, not only when interrupted", ""),
		stringFlag("resume", "go on with the "+c.Name+" saved as `NAME`, or in a file", ""))
	c.Flags = slices.Concat(c.Flags, answeringFlags(c.Name), serverChoice())
	c.Action = func(ctx context.Context, c *cli.Command) error {
		switch resumed := c.String("resume") != ""; {
		case resumed && (c.NArg() > 0 || c.String("json") != ""):
			return p.usage(c, "--resume goes on with the arguments the call was made with; give it alone")
		case resumed && c.Bool("detach"):
			return p.usage(c, "--detach is for a call that begins; one that is saved is detached")
		case !resumed && c.NArg() == 0:
			return p.usage(c, "which %s? %s %ss lists them", kind, p.self, kind)
		}
		ctx, stop := untilClosed(ctx)
		defer stop()
		return p.converse(ctx, c, begin)
	}
	return c
}

// mayReplace fails if there is something at the path of --save that is lost when a call is
// saved there, and removed when it is over.
func mayReplace(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	if _, err := state.Load(path); !errors.Is(err, state.ErrMissing) {
		return err
	}
	return nil
}

// ending prints the result of a conversation, and decides the exit code. It is told
// whether the user refused something.
type ending func(c *cli.Command, refused bool) error

// converse has begin start something that may ask, or goes on with what --resume
// names; saves where it stands if it is stopped; and prints what it comes to.
func (p *program) converse(ctx context.Context, c *cli.Command, begin func(context.Context, *cli.Command, *client.Client, client.Handlers) (ending, error)) error {
	if output := c.String("output"); output != "text" && output != "json" {
		return p.usage(c, "--output is text or json, not %q", output)
	}
	saved, resumed := new(state.Call), ""
	if name := c.String("resume"); name != "" {
		resumed = state.Path(name)
		var err error
		if saved, err = state.Load(resumed); err != nil {
			return p.notSaved(err)
		}
	}
	if err := mayReplace(c.String("save")); err != nil {
		return p.usage(c, "--save would not keep what is there: %w", err)
	}
	asker, handlers, err := p.newAsker(c)
	if err != nil {
		return err
	}
	connection, err := p.connect(c, saved, c.Int("max-rounds"))
	if err != nil {
		return err
	}
	defer connection.Close()

	if asker.bar = term.NewBar(p.stderr, os.Getenv); asker.bar != nil {
		handlers.OnProgress = func(progress client.Progress) { asker.bar.Show(progress) }
	}
	p.bar = asker.bar
	defer asker.bar.Clear()
	save := c.String("save")
	asker.detach = c.Bool("detach")
	handlers.OnPosition = func(_ context.Context, position client.Position) error {
		saved.Position = position
		if asker.detach {
			return errDetached
		}
		if save == "" {
			return nil
		}
		return saved.Save(save)
	}
	asker.bar.Expect()
	var end ending
	if resumed != "" {
		p.warnOfExpiry(c, saved)
		end, err = p.resume(ctx, connection, saved.Position, handlers)
	} else {
		end, err = begin(ctx, c, connection, handlers)
	}
	asker.bar.Clear()
	if errors.Is(err, errDetached) {
		return p.detached(c, saved)
	}
	if err != nil {
		return p.interrupted(c, saved, resumed, asker.refused, err)
	}
	err = end(c, asker.refused)
	if err != nil && exitCode(err) == exitUsage && begun(saved.Position) {
		// The result cannot be put where it was to go: keep the way to it.
		return p.interrupted(c, saved, resumed, false, &client.InterruptedError{Position: saved.Position, Err: err})
	}
	forget(save, resumed)
	return err
}

// warnOfExpiry tells, as far as this user's own keys do, that a call has waited for too
// long, before somebody answers in vain.
func (p *program) warnOfExpiry(c *cli.Command, saved *state.Call) {
	if at := newInspector(c).expiry(saved.Position.Token); !at.IsZero() && time.Now().After(at) {
		p.say("saga: this call could go on until %s only; the server will hardly take it up again", at.Local().Format("2006-01-02 15:04"))
	}
}

func (p *program) resume(ctx context.Context, connection *client.Client, position client.Position, handlers client.Handlers) (ending, error) {
	switch position.Kind() {
	case "prompt":
		return p.prompt(connection.ResumePrompt(ctx, position, handlers))
	case "resource":
		return p.resource(connection.ResumeResource(ctx, position, handlers))
	}
	return p.tool(connection.Resume(ctx, position, handlers))
}

// newAsker returns what answers steps, and the handlers that ask it.
func (p *program) newAsker(c *cli.Command) (a *asker, h client.Handlers, err error) {
	a = &asker{p: p, yes: c.Bool("yes-sampling"), term: term.New(p.stdin, p.stderr, os.Getenv)}
	if path := c.String("answers"); path != "" {
		if path == "-" && c.String("json") == "-" {
			return nil, h, p.usage(c, "--answers and --json cannot both be read from the standard input")
		}
		if a.file, err = answers.Load(path); err != nil {
			return nil, h, &exitError{exitUsage, err}
		}
	}
	h.Elicit, h.Sample = a.elicit, a.sample
	if h.Roots, err = namedRoots(c.StringSlice("root")); err != nil {
		return nil, h, failed(err)
	}
	a.model, err = model.New(model.Config{
		Provider: c.String("model-provider"), BaseURL: c.String("model-url"), Key: c.String("model-key"),
		Model: c.String("model"), Hints: c.Bool("model-hints"), Getenv: os.Getenv,
	})
	return a, h, err
}

func namedRoots(dirs []string) (func(context.Context, *client.Request) ([]steps.Root, error), error) {
	if len(dirs) == 0 {
		return nil, nil // answered with "not supported"
	}
	var roots []steps.Root
	for _, dir := range dirs {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		uri := url.URL{Scheme: "file", Path: filepath.ToSlash(absolute)}
		if !strings.HasPrefix(uri.Path, "/") {
			uri.Path = "/" + uri.Path // a drive letter
		}
		roots = append(roots, steps.Root{URI: uri.String(), Name: filepath.Base(absolute)})
	}
	return func(context.Context, *client.Request) ([]steps.Root, error) { return roots, nil }, nil
}

// asker answers the steps of a call from what there is: a file, a model, a person.
type asker struct {
	p     *program
	file  answers.File   // nil without --answers
	term  *term.Terminal // nil without a terminal
	model *model.Model   // nil if none is configured
	// yes allows the model to be used without asking.
	yes bool
	// refused is set when the user declined or dismissed something.
	refused bool
	// bar shows how far the call is; nil without a terminal.
	bar *term.Bar
	// detach: nobody is to be asked.
	detach bool
}

// errDetached stops a call that is to go on without this program.
var errDetached = fmt.Errorf("detached: %w", client.ErrPause)

// mayAsk makes room for a question.
func (a *asker) mayAsk() error {
	a.bar.Clear()
	if a.detach {
		why := &exitError{exitUsage, errors.New("the server speaks an older revision of MCP, in which a call that asks something cannot go on later: leave out --detach")}
		return fmt.Errorf("%w (%w)", why, client.ErrPause)
	}
	return nil
}

func (a *asker) elicit(ctx context.Context, r *client.Request) (result *client.ElicitResult, err error) {
	if err := a.mayAsk(); err != nil {
		return nil, err
	}
	switch {
	case a.file != nil:
		result, err = a.file.Elicit(r)
	case a.term != nil:
		result, err = a.term.Elicit(ctx, r)
	default:
		err = needsPerson(r.StepID, plain.Line(r.Message), "Answer it with --answers FILE, or in a terminal.")
	}
	a.refused = a.refused || result != nil && result.Action != "accept"
	a.bar.Expect()
	return result, err
}

func (a *asker) sample(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	if err := a.mayAsk(); err != nil {
		return nil, err
	}
	result, err := a.sampleFrom(ctx, r)
	a.refused = a.refused || errors.As(err, new(*client.Error))
	a.bar.Expect()
	return result, err
}

func (a *asker) sampleFrom(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	switch {
	case a.file != nil && (a.model == nil || !a.yes || a.file.Has(r.StepID)):
		return a.file.Sample(r) // or says what is missing
	case a.model != nil && a.yes:
		a.p.say("saga: asking %s at %s", plain.Line(a.model.Name(r.Sample)), a.model.Host())
		result, err := a.model.Complete(ctx, r.Sample)
		if err != nil && ctx.Err() == nil {
			err = &modelFailed{err}
		}
		return result, err
	case a.term == nil:
		advice := "Answer it with --answers FILE, or in a terminal."
		if a.model != nil {
			advice += " Allow your model to answer with --yes-sampling."
		}
		return nil, needsPerson(r.StepID, plain.Line(term.Describe(r.Sample)), advice)
	}
	return a.sampleWithPerson(ctx, r)
}

// sampleWithPerson has the person answer, or decide what the model may see and the tool
// get.
func (a *asker) sampleWithPerson(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	draft := ""
	for a.model != nil {
		consent, err := a.term.AskConsent(ctx, r, a.model.Name(r.Sample), a.model.Host())
		switch {
		case err != nil:
			return nil, err
		case consent == term.Refuse:
			return nil, answers.Refused()
		}
		if consent == term.Myself {
			break
		}
		result, err := a.model.Complete(ctx, r.Sample)
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if err != nil {
			report(a.p.stderr, &modelFailed{err})
			continue // ask what to do now
		}
		consent, err = a.term.Review(ctx, r, result)
		switch {
		case err != nil:
			return nil, err
		case consent == term.Send:
			return result, nil
		case consent == term.Refuse:
			return nil, answers.Refused()
		}
		draft = result.Text()
		break
	}
	text, given, err := a.term.AnswerSample(ctx, r, draft)
	switch {
	case err != nil:
		return nil, err
	case !given:
		return nil, answers.Refused()
	}
	return client.Reply("human", text), nil
}
