package main

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/answers"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/model"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/steps"
)

// asker answers the steps of a call from what there is: a file, a model, a person.
type asker struct {
	p     *program
	file  *answers.File  // nil without --answers
	term  *term.Terminal // nil without a terminal
	model model.Model    // nil if none is configured
	// yes allows the model to be used without asking.
	yes bool
	// refused is set when the user declined or dismissed something.
	refused bool
}

// elicit answers a form or link.
func (a *asker) elicit(ctx context.Context, r *client.Request) (*client.ElicitResult, error) {
	result, err := a.elicitFrom(ctx, r)
	if result != nil && result.Action != "accept" {
		a.refused = true
	}
	return result, err
}

func (a *asker) elicitFrom(ctx context.Context, r *client.Request) (*client.ElicitResult, error) {
	switch {
	case a.file != nil:
		return a.file.Elicit(r)
	case a.term != nil:
		return a.term.Elicit(ctx, r)
	}
	return nil, needsPerson(r.StepID, plain.Line(r.Message), "Answer it with --answers FILE, or in a terminal.")
}

// sample answers a sampling step.
func (a *asker) sample(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	switch {
	case a.file != nil && a.file.Has(r.StepID):
		result, err := a.file.Sample(r)
		a.refused = a.refused || isAny[*client.Error](err)
		return result, err
	case a.model != nil && a.yes:
		a.p.say("saga: asking %s at %s", plain.Line(a.model.Name(r.Sample)), a.model.Host())
		result, err := a.model.Complete(ctx, r.Sample)
		if err != nil && ctx.Err() == nil {
			err = &modelFailed{err}
		}
		return result, err
	case a.file != nil:
		return a.file.Sample(r) // says what is missing
	case a.term == nil:
		advice := "Answer it with --answers FILE, or in a terminal."
		if a.model != nil {
			advice += " Allow your model to answer with --yes-sampling."
		}
		return nil, needsPerson(r.StepID, plain.Line(term.Describe(r.Sample)), advice)
	}
	return a.sampleWithPerson(ctx, r)
}

// sampleWithPerson has the person answer, or decide what the model may see and say.
func (a *asker) sampleWithPerson(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	for a.model != nil {
		consent, err := a.term.AskConsent(ctx, r, a.model.Name(r.Sample), a.model.Host())
		if err != nil {
			return nil, err
		}
		if consent == term.Refuse {
			return nil, a.refuse()
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
		return a.review(ctx, r, result)
	}
	return a.byHand(ctx, r, "")
}

// review lets the person see and change what the model said.
func (a *asker) review(ctx context.Context, r *client.Request, result *steps.SampleResult) (*steps.SampleResult, error) {
	consent, err := a.term.Review(ctx, r, result)
	switch {
	case err != nil:
		return nil, err
	case consent == term.Send:
		return result, nil
	case consent == term.Myself:
		return a.byHand(ctx, r, result.Text())
	}
	return nil, a.refuse()
}

func (a *asker) byHand(ctx context.Context, r *client.Request, draft string) (*steps.SampleResult, error) {
	text, given, err := a.term.AnswerSample(ctx, r, draft)
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, a.refuse()
	}
	return client.Reply("human", text), nil
}

func (a *asker) refuse() error {
	a.refused = true
	return answers.Refused()
}

// stoppedByUser reports whether err means that the user wants to go on later.
func stoppedByUser(err error) bool {
	return errors.Is(err, client.ErrPause) || errors.Is(err, context.Canceled)
}
