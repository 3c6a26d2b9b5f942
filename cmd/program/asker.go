package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/model"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/term"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

func (p *program) answeringFlags(verb string) []cli.Flag {
	return []cli.Flag{
		p.stringFlag("answers", "answer every question from a JSON `FILE` (- for standard input)", ""),
		p.intFlag("max-rounds", "how often the server may ask before the "+verb+" stops", 20),
		p.listFlag("root", "a `DIR` to name when the server asks where you work"),
		p.stringFlag("model", "the `NAME` of the model that answers sampling steps, within 10 minutes each", ""),
		p.stringFlag("model-url", "the base `URL` of the model's API, which is compatible with OpenAI's", ""),
		p.stringFlag("model-key", "the API `KEY`; better given as {PROGRAM}_MODEL_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY", ""),
		p.boolFlag("yes-sampling", "let the model answer without asking you first"),
	}
}

// asker answers the steps of a call from what there is: a file, a model, a person.
type asker struct {
	p     *program
	file  answers        // nil without --answers
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
		if a.file, err = p.loadAnswers(path); err != nil {
			return nil, h, &exitError{exitUsage, err}
		}
	}
	h.Elicit, h.Sample = a.elicit, a.sample
	if h.Roots, err = namedRoots(c.StringSlice("root")); err != nil {
		return nil, h, failed(err)
	}
	a.model, err = model.New(c.String("model"), c.String("model-url"), c.String("model-key"), os.Getenv)
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
		return pause(exitUsage, "the server speaks an older revision of MCP, in which a call that asks something cannot be resumed: leave out --detach")
	}
	return nil
}

// needsPerson says that only a person can answer, and that there is none.
func needsPerson(r *client.Request, ask, advice string) error {
	return needed("step %s needs an answer and there is no terminal to ask at: %s\nAnswer it with --answers FILE, or in a terminal.%s", r.StepID, plain.Line(ask), advice)
}

func (a *asker) elicit(ctx context.Context, r *client.Request) (result *client.ElicitResult, err error) {
	if err := a.mayAsk(); err != nil {
		return nil, err
	}
	switch {
	case a.file != nil:
		result, err = a.file.elicit(r)
	case a.term != nil:
		result, err = a.term.Elicit(ctx, r)
	default:
		err = needsPerson(r, r.Message, "")
	}
	a.refused = a.refused || result != nil && result.Action != "accept"
	return result, err
}

func (a *asker) sample(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	if err := a.mayAsk(); err != nil {
		return nil, err
	}
	result, err := a.sampleFrom(ctx, r)
	a.refused = a.refused || errors.As(err, new(*client.Error))
	return result, err
}

func (a *asker) sampleFrom(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	_, answered := a.file.lookUp(r.StepID)
	switch {
	case a.file != nil && (a.model == nil || !a.yes || answered):
		return a.file.sample(r) // or says what is missing
	case a.model != nil && a.yes:
		a.p.remark("asking %s at %s", plain.Line(a.model.Name()), a.model.Host())
		result, err := a.model.Complete(ctx, r.Sample)
		if err != nil && ctx.Err() == nil {
			err = modelFailed(err)
		}
		return result, err
	case a.term != nil:
		return a.sampleWithPerson(ctx, r)
	case a.model != nil:
		return nil, needsPerson(r, term.Describe(r.Sample), " Allow your model to answer with --yes-sampling.")
	}
	return nil, needsPerson(r, term.Describe(r.Sample), "")
}

func modelFailed(err error) error { return pause(exitFailed, "your model failed: %w", err) }

// sampleWithPerson has the person answer, or decide what the model may see and the tool
// get.
func (a *asker) sampleWithPerson(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	draft := ""
	for a.model != nil {
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
			a.p.report(modelFailed(err))
			continue // ask what to do now
		}
		consent, err = a.term.Review(ctx, r, result)
		switch {
		case err != nil:
			return nil, err
		case consent == term.Send:
			return result, nil
		}
		draft = result.Text()
		break
	}
	text, err := a.term.AnswerSample(ctx, r, draft)
	if err != nil {
		return nil, err
	}
	return client.Reply("human", text), nil
}

// answers are those of a file, by step id:
//
//	{
//	  "target":  {"environment": "production", "count": 2},
//	  "sign-in": "accept",
//	  "advice":  "Yes, all systems are green."
//	}
//
// A question asked in a loop ("item#2") can be answered by the id it was declared with ("item"). A question
// that the tool asks again because it could not use the answer ("item~2") needs an answer of its own.
type answers map[string]json.RawMessage

// needed says that a step has no answer, or one that does not fit.
func needed(format string, args ...any) error { return pause(exitNeedsAnswer, format, args...) }

// loadAnswers reads the file at path; "-" is the standard input.
func (p *program) loadAnswers(path string) (answers, error) {
	data, err := p.input(path)
	if err != nil {
		return nil, fmt.Errorf("the answers: %w", err)
	}
	return parseAnswers(data)
}

func parseAnswers(data []byte) (answers, error) {
	f := answers{}
	if err := jsonv2.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("the answers must be a JSON object of step ids and answers: %w", err)
	}
	return f, nil
}

func (f answers) lookUp(stepID string) (json.RawMessage, bool) {
	if answer, found := f[stepID]; found {
		return answer, true
	}
	if strings.Contains(stepID, "~") {
		return nil, false // the answer was given before, and was not good
	}
	answer, found := f[ident.Base(stepID)]
	return answer, found
}

func unfit(stepID, must string) error { return needed("the answer for step %q %s", stepID, must) }

// elicit answers a form or link. The error is one of needed.
func (f answers) elicit(r *client.Request) (*client.ElicitResult, error) {
	raw, found := f.lookUp(r.StepID)
	if !found {
		return nil, needed("the answers have none for step %q, which asks: %s", r.StepID, r.Message)
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch {
		case word == "decline":
			return client.Decline(), nil
		case word == "cancel":
			return client.Cancel(), nil
		case word == "accept" && r.Mode == "url":
			return client.Accept(nil), nil
		}
	}
	if r.Mode == "url" {
		return nil, unfit(r.StepID, `must be "accept", "decline" or "cancel"`)
	}
	form, err := r.Form()
	if err != nil {
		return nil, unfit(r.StepID, "cannot be checked, the form is faulty: "+err.Error())
	}
	var content map[string]any
	if json.Unmarshal(raw, &content) != nil || content == nil {
		return nil, unfit(r.StepID, `must be an object with the form's fields, "decline" or "cancel"`)
	}
	if err := form.Validate(content); err != nil {
		return nil, unfit(r.StepID, "does not fit its form: "+err.Error()+" (its fields: "+plain.Short(fieldsOf(form), 1000)+")")
	}
	return client.Accept(raw), nil
}

// fieldsOf lists a form's fields by the names and values that a file must use. Errors of
// validation name them by the titles that a person would see.
func fieldsOf(form *steps.FormSpec) string {
	var fields []string
	for _, f := range form.Fields {
		var values []string
		for _, choice := range f.Choices {
			values = append(values, strconv.Quote(choice.Value))
		}
		fields = append(fields, strings.TrimSpace(f.Name+" "+strings.Join(values, " or ")))
	}
	return strings.Join(fields, ", ")
}

// sample answers a sampling step. The error is one of needed, or a [*client.Error]
// that refuses.
func (f answers) sample(r *client.Request) (*steps.SampleResult, error) {
	raw, found := f.lookUp(r.StepID)
	if !found {
		ask := "a completion"
		if n := len(r.Sample.Messages); n > 0 {
			ask = r.Sample.Messages[n-1].Content.Text()
		}
		return nil, needed("the answers have none for step %q, which asks: %s", r.StepID, ask)
	}
	if string(raw) == "null" {
		return nil, term.Refused()
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return client.Reply("answers-file", text), nil
	}
	result := new(steps.SampleResult)
	if err := json.Unmarshal(raw, result); err != nil {
		return nil, unfit(r.StepID, "must be a text, a sampling result, or null: "+err.Error())
	}
	return result, nil
}
