package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Client is asked while its request is served.
type Client interface {
	// Ask asks all steps at once and waits for the answers, in the order of the steps; their step ids are not read. There may
	// be no steps: the tool has paused. When ctx ends with the cause [ErrLate], Ask returns the answers that there are; those
	// that are missing have neither a result nor an error. It fails when ctx ends otherwise, and when the client cannot be
	// asked (see [ErrGone]).
	Ask(ctx context.Context, asked []steps.Step) ([]steps.Answer, error)
}

// ErrLate is why a client is not waited for any more: it took too long.
var ErrLate = errors.New("no answer came in time")

// maxPauses bounds the turns in a row that ask nothing, in the request of a client
// that cannot be asked to come back: more is a tool that pauses for ever.
const maxPauses = 1000

var errPauses = fmt.Errorf("the tool paused %d times in a row", maxPauses)

// Codes of the client errors that stand for an answer that there is not.
const (
	codeLate      = -32001
	codeMalformed = -32602
	codeInternal  = -32603
)

// Drive takes all turns of a saga of q.Program, or from q.Token on, as if the client had carried the tokens. If the client
// gets parts of the result, it returns at the next one, with the token for the rest. If the saga cannot go on, what it has done is
// undone, unless the client can come back with q.Token.
func (r *Runner) Drive(ctx context.Context, q Request, client Client) (End, error) {
	take := r.Call
	if q.Token != "" {
		take = r.Resume
	}
	end, err := take(ctx, q)
	q.Arguments = nil // they are in the token
	for pauses := 0; err == nil && end.Token != "" && end.Yielded == nil; {
		q.Token, q.Policy = end.Token, end.Policy
		if pauses++; len(end.Steps) > 0 {
			pauses = 0
		}
		switch {
		case pauses > maxPauses:
			err = errPauses
		case !end.Wake.IsZero():
			q.Answers, err = nil, r.hold(ctx, &q, end.Wake)
		default:
			q.Answers, err = r.ask(ctx, &q, client, end.Steps)
		}
		if err != nil {
			err = r.Report(ctx, q.Method, err)
			if q.Policy.UndoBroken { // giveUp does that: who calls again begins another saga
				err = once(err)
			}
		} else {
			end, err = r.goOn(ctx, q)
		}
	}
	if err != nil {
		return End{}, r.giveUp(ctx, q, err)
	}
	return end, nil
}

// ask returns the client's answers. What it does not answer in time it could not perform:
// that is a little less than the token is good for, so that the saga still hears of it. If the
// client can come back with another token it does not: the client may be elsewhere by now.
func (r *Runner) ask(ctx context.Context, q *Request, client Client, asked []steps.Step) ([]steps.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ttl := r.Codec.Options().TTL
	late := time.AfterFunc(ttl-ttl/10, func() { cancel(ErrLate) })
	defer late.Stop()
	back := q.pause(true)
	answers, err := client.Ask(ctx, asked)
	back()
	if err != nil {
		return nil, err
	}
	for i := range answers {
		a := &answers[i]
		a.StepID = asked[i].ID
		if a.Result == nil && a.Error == nil && errors.Is(context.Cause(ctx), ErrLate) {
			if !q.Policy.UndoBroken {
				return nil, ErrLate
			}
			a.Error = &steps.ClientError{Code: codeLate, Message: ErrLate.Error()}
		}
	}
	return answers, nil
}

// goOn resumes a saga. An answer that is not of MCP's form is a fault in the
// client that asking again would not mend: it counts as the client's failure to
// perform the step, which the tool can handle, rather than leave the saga hanging.
func (r *Runner) goOn(ctx context.Context, q Request) (End, error) {
	for {
		end, err := r.Resume(ctx, q)
		var wrong *engine.AnswerError
		if !errors.As(err, &wrong) {
			return end, err
		}
		r.Log.InfoContext(ctx, "answer not usable", "tool", q.Program.Name, "step", wrong.StepID, "reason", wrong.Reason)
		if !discard(q.Answers, wrong) {
			return End{}, err
		}
	}
}

// discard replaces a wrong answer by a failure. It reports false if that does not
// help because it is one already.
func discard(answers []steps.Answer, wrong *engine.AnswerError) bool {
	for i := range answers {
		if a := &answers[i]; a.StepID == wrong.StepID && a.Result != nil {
			a.Result, a.Error = nil, &steps.ClientError{Code: codeMalformed, Message: "the answer is malformed: " + wrong.Reason}
			return true
		}
	}
	return false
}

// giveUp ends a saga that is not to be continued, as the client has no token or wants that:
// what it has done is undone, unless that was seen to already. It returns why, with what stays of it.
func (r *Runner) giveUp(ctx context.Context, q Request, why error) error {
	var undone *engine.UndoneError
	if q.Token == "" || !q.undoes(ctx) || errors.Is(why, tokens.ErrRejected) || errors.As(why, &undone) {
		return why
	}
	q.Answers = nil
	ctx = context.WithoutCancel(ctx)
	var end End
	o, err := r.open(ctx, &q, true)
	if err == nil {
		turn := r.hookedOpen(ActionUndo, &q, o)
		turn.insist(ctx, r)
		end, err = r.around(ctx, turn, func(ctx context.Context) (End, error) { return r.cancel(ctx, &q, o) })
	}
	if err != nil {
		r.Log.ErrorContext(ctx, "saga not ended", "tool", q.Program.Name, "error", err)
		why = once(errors.Join(why, err))
	} else if report := UndoReport(end.Result); report != nil && (report.Final != "" || len(report.Outstanding) > 0) {
		why = once(r.Failed(o.Identity, &engine.UndoneError{Err: why, Report: report}))
	}
	return why
}

// Model is a language model of the server's own. It answers the sampling steps that a
// client cannot, within the turn that asked for them.
type Model func(context.Context, *steps.SampleRequest) (*steps.SampleResult, error)

// modelFeatures are what a Model adds to a client. It has no context of other
// MCP servers to include.
var modelFeatures = steps.Features{Sampling: true, SamplingTools: true}

// maxOwnTurns bounds the turns that one request takes without the client: more
// is a tool that talks to the model in a circle.
const maxOwnTurns = 100

var errOwnTurns = fmt.Errorf("the tool went on without its client %d times in one turn", maxOwnTurns)

// sample has the server's model answer a step. A failure of the model is an
// answer too: the tool sees it as it would see a client's.
func (r *Runner) sample(ctx context.Context, t *engine.Program, step steps.Step) (steps.Answer, error) {
	a := steps.Answer{StepID: step.ID}
	request, err := steps.Step{Params: step.Params}.Sample()
	if err != nil {
		return a, fmt.Errorf("a step for the server's model: %w", err)
	}
	if _, bounded := ctx.Deadline(); !bounded && r.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, r.Timeout)
		defer cancel()
		ctx = limited
	}
	result, err := engine.Within(ctx, t, "the server's model", func() (*steps.SampleResult, error) { return r.Model(ctx, request) })
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
