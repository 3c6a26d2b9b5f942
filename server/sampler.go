package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Sampler is a model of the server's own. It answers the sampling steps that a
// client cannot, within the turn that asked for them.
type Sampler func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error)

// samplerFeatures are what a Sampler adds to a client. It has no context of other
// MCP servers to include.
var samplerFeatures = steps.Features{Sampling: true, SamplingTools: true}

// maxOwnTurns bounds the turns that one request takes without the client: more
// is a tool that talks to the model in a circle.
const maxOwnTurns = 100

var errOwnTurns = fmt.Errorf("the tool asked the server's model %d times in one turn", maxOwnTurns)

// features are what a saga may ask for: what the client can do, and the server.
func (s *Server) features(c caller) steps.Features {
	if s.opts.Sampler == nil {
		return c.features
	}
	return c.features.With(samplerFeatures)
}

// advance takes the turns for which the client is not needed: its answers are
// here already, or the server's own model gives them. The client gets the steps
// that are left. With an error comes the last outcome before it.
func (s *Server) advance(ctx context.Context, c caller, t *engine.Program, out *engine.Outcome) (*engine.Outcome, error) {
	ahead := slices.Clone(c.ahead)
	for range maxOwnTurns {
		if out.Position == nil {
			return out, nil
		}
		var answers []steps.Answer
		early := 0
		for _, step := range out.Steps {
			if i := slices.IndexFunc(ahead, func(a steps.Answer) bool { return a.StepID == step.ID }); i >= 0 {
				answers = append(answers, ahead[i])
				ahead = slices.Delete(ahead, i, i+1)
				early++
			} else if !c.features.Has(step.Needs) {
				answer, err := s.sample(ctx, t, step)
				if err != nil {
					return out, err
				}
				answers = append(answers, answer)
			}
		}
		if len(answers) == 0 {
			return out, nil
		}
		r := engine.Resumption{Now: s.opts.Now(), Client: s.features(c), Answers: answers, Notifier: c.notify, Held: c.held()}
		next, err := t.Resume(ctx, out.Position, r)
		var malformed *engine.AnswerError
		switch {
		case errors.As(err, &malformed) && early > 0:
			// What was sent ahead is no answer. The saga has begun and is not to be
			// lost for that: ask.
			ahead = nil
		case err != nil:
			return out, err
		default:
			out = next
		}
	}
	return out, errOwnTurns
}

// forsake undoes a saga that failed where its client cannot go on from, unless
// the engine has.
func (s *Server) forsake(ctx context.Context, t *engine.Program, pos *engine.Position, why error) error {
	var undone *engine.UndoneError
	if errors.As(why, &undone) {
		return why
	}
	if pos != nil && pos.HasEffects() {
		// The turn may be over: undoing has time of its own.
		out, err := t.Cancel(ctx, pos, engine.Resumption{Now: s.opts.Now()})
		if err == nil {
			err = out.Err
		}
		if err != nil {
			s.log.Error("effects of a saga that failed were not undone", "tool", t.Name, "saga", saga.ID(pos.ID).String(), "error", err)
		}
	}
	return &engine.UndoneError{Err: why}
}

// sample has the server's model answer a step. A failure of the model is an
// answer too: the tool sees it as it would see a client's.
func (s *Server) sample(ctx context.Context, t *engine.Program, step steps.Step) (steps.Answer, error) {
	a := steps.Answer{StepID: step.ID}
	request, err := steps.Step{Params: step.Params}.Sample()
	if err != nil {
		return a, fmt.Errorf("a step for the server's model: %w", err)
	}
	var result *steps.SampleResult
	err = protect(func() (err error) {
		result, err = s.opts.Sampler(ctx, request)
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
		s.log.Error("the server's model failed", "tool", t.Name, "step", step.ID, "error", err)
		return steps.Answer{StepID: step.ID, Error: &steps.ClientError{Code: jsonrpc2.CodeInternalError, Message: "the model failed"}}, nil
	}
	return a, nil
}

// protect turns a panic of code that is not ours into an error.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &engine.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
