// Package complextool is the tool of the saga proposal, word for word: it asks
// the user where to deploy and the client's model whether that is safe now.
// Nothing is deployed anywhere; it shows how a saga speaks.
package complextool

import (
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type args struct {
	InitialArg string `json:"initial_arg,omitempty" jsonschema:"anything; it has no effect"`
}

type state struct {
	Target string `json:"target"`
}

type targetForm struct {
	Target string `json:"target"`
}

var (
	target = &steps.Form[targetForm]{ID: "step-elicitation-A", Message: "Please provide the deployment target:"}
	advice = &steps.Sample{ID: "step-sampling-B", Request: steps.SampleRequest{MaxTokens: 100}}
)

// Tool is complex_tool.
var Tool = saga.Machine[args, state]{
	Info: saga.Info{
		Name:        "complex_tool",
		Title:       "Pretend to deploy",
		Description: "Asks for a deployment target, has the client's model judge whether deploying there is safe now, and pretends to deploy.",
		Asks:        []steps.Question{target, advice},
	},
	Start: askTarget,
	Steps: saga.Steps[args, state]{"target": askAdvice, "advice": deploy},
}

func askTarget(t *saga.Turn[args, state]) (saga.Next, error) {
	// Say that there is no model before the user fills in a form.
	if err := t.Need(steps.Features{Forms: true, Sampling: true}); err != nil {
		return nil, err
	}
	return t.Ask("target", target)
}

func askAdvice(t *saga.Turn[args, state]) (saga.Next, error) {
	form, err := target.Answer(t)
	if err != nil {
		return nil, err
	}
	t.State.Target = form.Target
	return t.Ask("advice", advice.With(steps.Promptf("Is deploying to '%s' safe right now?", form.Target)))
}

func deploy(t *saga.Turn[args, state]) (saga.Next, error) {
	said, err := advice.Answer(t)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(said.Text())), "yes") {
		return nil, saga.Failf("Deployment to %s was not initiated: the model did not confirm it. It said: %s", t.State.Target, said.Text())
	}
	return t.Textf("Deployment to %s initiated successfully based on confirmation.", t.State.Target)
}
