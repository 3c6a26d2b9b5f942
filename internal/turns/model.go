package turns

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Model is a language model of the server's own. It answers the sampling steps that a
// client cannot, within the turn that asked for them.
type Model func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error)

// modelFeatures are what a Model adds to a client. It has no context of other
// MCP servers to include.
var modelFeatures = steps.Features{Sampling: true, SamplingTools: true}

// maxOwnTurns bounds the turns that one request takes without the client: more
// is a tool that talks to the model in a circle.
const maxOwnTurns = 100

var errOwnTurns = fmt.Errorf("the tool asked the server's model %d times in one turn", maxOwnTurns)

// sample has the server's model answer a step. A failure of the model is an
// answer too: the tool sees it as it would see a client's.
func (r *Runner) sample(ctx context.Context, t *engine.Program, step steps.Step) (steps.Answer, error) {
	a := steps.Answer{StepID: step.ID}
	request, err := steps.Step{Params: step.Params}.Sample()
	if err != nil {
		return a, fmt.Errorf("a step for the server's model: %w", err)
	}
	var result *steps.SampleResult
	err = protect(func() (err error) {
		result, err = r.Model(ctx, request)
		return err
	})
	if err == nil && result == nil {
		err = errors.New("the sampler returned neither a result nor an error")
	}
	if err == nil {
		if a.Result, err = result.MarshalJSON(); err == nil {
			// What a client sends is checked by the engine, which would call this a
			// client's mistake.
			err = new(steps.SampleResult).UnmarshalJSON(a.Result)
		}
	}
	if ctx.Err() != nil {
		return a, ctx.Err()
	}
	if err != nil {
		r.Log.ErrorContext(ctx, "the server's model failed", "tool", t.Name, "step", step.ID, "error", err)
		return steps.Answer{StepID: step.ID, Error: &steps.ClientError{Code: codeInternal, Message: "the model failed"}}, nil
	}
	return a, nil
}
