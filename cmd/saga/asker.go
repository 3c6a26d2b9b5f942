package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/answers"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/model"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/steps"
)

func answeringFlags(verb string) []cli.Flag {
	return []cli.Flag{
		stringFlag("answers", "answer every question from a JSON `FILE` (- for standard input)", ""),
		intFlag("max-rounds", "how often the server may ask before the "+verb+" stops", 20),
		listFlag("root", "a `DIR` to name when the server asks where you work"),
		stringFlag("model", "the `NAME` of the model that answers sampling steps", ""),
		stringFlag("model-provider", "openai (and whatever is compatible), anthropic, or none", ""),
		stringFlag("model-url", "the base `URL` of the model's API", ""),
		stringFlag("model-key", "the API `KEY`; better given as SAGA_MODEL_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY", ""),
		boolFlag("yes-sampling", "let the model answer without asking you first"),
	}
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
	// detach: no question is to be asked.
	detach bool
}

// newAsker returns what answers steps, and the handlers that ask it.
func (p *program) newAsker(c *cli.Command) (a *asker, h client.Handlers, err error) {
	a = &asker{p: p, yes: c.Bool("yes-sampling"), detach: c.Bool("detach"), term: term.New(p.stdin, p.stderr)}
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
		Model: c.String("model"), Getenv: os.Getenv,
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
		// On Windows the path begins with a drive letter.
		uri := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(absolute), "/")}
		roots = append(roots, steps.Root{URI: uri.String(), Name: filepath.Base(absolute)})
	}
	return func(context.Context, *client.Request) ([]steps.Root, error) { return roots, nil }, nil
}

// errDetached stops a call that continues without this program.
var errDetached = fmt.Errorf("detached: %w", client.ErrPause)

// mayAsk makes room for a question.
func (a *asker) mayAsk() error {
	a.p.bar.Clear()
	if a.detach {
		why := &exitError{exitUsage, errors.New("the server speaks an older revision of MCP, in which a call that asks something cannot be resumed: leave out --detach")}
		return fmt.Errorf("%w (%w)", why, client.ErrPause)
	}
	return nil
}

// needsPerson says that only a person can answer, and that there is none.
func needsPerson(r *client.Request, ask, advice string) error {
	return &answers.NeededError{Reason: fmt.Sprintf("step %s needs an answer and there is no terminal to ask at: %s\nAnswer it with --answers FILE, or in a terminal.%s",
		r.StepID, plain.Line(ask), advice)}
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
		err = needsPerson(r, r.Message, "")
	}
	a.refused = a.refused || result != nil && result.Action != "accept"
	a.p.bar.Expect()
	return result, err
}

func (a *asker) sample(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	if err := a.mayAsk(); err != nil {
		return nil, err
	}
	result, err := a.sampleFrom(ctx, r)
	a.refused = a.refused || errors.As(err, new(*client.Error))
	a.p.bar.Expect()
	return result, err
}

func (a *asker) sampleFrom(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	switch {
	case a.file != nil && (a.model == nil || !a.yes || a.file.Has(r.StepID)):
		return a.file.Sample(r) // or says what is missing
	case a.model != nil && a.yes:
		a.p.say("saga: asking %s at %s", plain.Line(a.model.Name()), a.model.Host())
		result, err := a.model.Complete(ctx, r.Sample)
		if err != nil && ctx.Err() == nil {
			err = &modelFailed{err}
		}
		return result, err
	case a.term == nil && a.model != nil:
		return nil, needsPerson(r, term.Describe(r.Sample), " Allow your model to answer with --yes-sampling.")
	case a.term == nil:
		return nil, needsPerson(r, term.Describe(r.Sample), "")
	}
	return a.sampleWithPerson(ctx, r)
}

// sampleWithPerson has the person answer, or decide what the model may see and the tool
// get.
func (a *asker) sampleWithPerson(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	draft := ""
	for a.model != nil && draft == "" {
		consent, err := a.term.AskConsent(ctx, r, a.model.Name(), a.model.Host())
		if err != nil {
			return nil, err
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
		}
		if draft = result.Text(); draft == "" {
			break
		}
	}
	text, err := a.term.AnswerSample(ctx, r, draft)
	if err != nil {
		return nil, err
	}
	return client.Reply("human", text), nil
}
