package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/steps"
)

// drive takes turns with the server until there is a result, which parse reads. p is
// its own, and err says why there is nothing to drive. Errors are *InterruptedError.
func drive[R any](ctx context.Context, c *Client, p Position, err error, handlers Handlers, parse func(json.RawMessage, Limits) (*R, error)) (*R, error) {
	var raw json.RawMessage
	if err == nil {
		raw, err = c.turns(ctx, &p, &handlers)
	}
	if err == nil {
		var result *R
		if result, err = parse(raw, c.options.Limits); err == nil {
			return result, nil
		}
	}
	return nil, &InterruptedError{Position: p.snapshot(), Err: err}
}

// turns returns the result of the last turn.
func (c *Client) turns(ctx context.Context, p *Position, handlers *Handlers) (json.RawMessage, error) {
	dialect, err := c.dialect(p)
	if err != nil {
		return nil, err
	}
	follower := &follower{Client: c, p: p, h: handlers, sent: map[string]bool{}}
	if p.Task != "" {
		if err := c.checkTask(p); err != nil {
			return nil, err
		}
		return follower.follow(ctx)
	}
	for rounds := 0; rounds <= c.options.MaxRounds; rounds++ {
		if err := answerPending(ctx, p, handlers, dialect.keepsAnswers()); err != nil {
			return nil, err
		}
		next := dialect.next(p, handlers)
		next.later = p.Round > 0
		next.notify = handlers.progressOf(next.progress)
		c.mirror(ctx, p, &next)
		raw, err := c.send(ctx, next)
		if err != nil && c.mustBeTask(ctx, p, err) {
			// Nothing has happened yet; with the other protocol it can.
			dialect = statelessDialect{c.options}
			p.Dialect = dialect.name()
			continue
		}
		if err != nil {
			return nil, err
		}
		turn, err := dialect.parse(raw, c.options.Limits)
		if err != nil {
			return nil, err
		}
		if turn.result != nil {
			return p.whole(turn.result)
		}
		if turn.task != nil {
			if p.Tool == "" {
				return nil, malformed("the server has made a task of a %s, which MCP does not allow", p.Kind())
			}
			if err := follower.begin(ctx, turn.task); err != nil {
				return nil, err
			}
			return follower.follow(ctx)
		}
		if err := c.options.Limits.checkForms(turn.steps); err != nil {
			return nil, err
		}
		if err := p.collect(turn.parts, c.options.Limits); err != nil {
			return nil, err
		}
		if err := p.suspended(turn.token, turn.steps, dialect.keepsAnswers()); err != nil {
			return nil, err
		}
		if err := handlers.report(ctx, p); err != nil {
			return nil, err
		}
		if len(turn.parts) > 0 && len(turn.steps) == 0 {
			rounds-- // it has asked nothing, and does not go on for ever
		}
		if len(turn.steps) == 0 && turn.wait > 0 {
			if handlers.OnProgress != nil {
				handlers.OnProgress(Progress{Until: time.Now().Add(turn.wait)})
			}
			if err := sleep(ctx, turn.wait); err != nil {
				return nil, err
			}
		}
	}
	return nil, tooManyRounds(c.options.MaxRounds)
}

// resume continues from a position, whose subject must be of the kind wanted: not empty.
func resume[R any](ctx context.Context, c *Client, p Position, subject string, h Handlers, parse func(json.RawMessage, Limits) (*R, error)) (*R, error) {
	err := p.check()
	if err == nil && subject == "" {
		err = positionError("it is of a %s: use the method for that", p.Kind())
	}
	return drive(ctx, c, p.snapshot(), err, h, parse)
}

// answerPending has the handlers answer what the server asked and no handler has
// answered, and records each answer as it comes.
func answerPending(ctx context.Context, p *Position, handlers *Handlers, errorsToo bool) error {
	for _, step := range p.Pending() {
		if _, err := answerStep(ctx, p, handlers, step, errorsToo); err != nil {
			return err
		}
	}
	return nil
}

// answerStep has a step answered. Where an answer cannot be an error, it is returned as one.
func answerStep(ctx context.Context, p *Position, handlers *Handlers, step Step, errorsToo bool) (Answer, error) {
	request := &Request{Tool: p.Subject(), StepID: step.StepID, Round: p.Round, Params: step.Params}
	answer, err := handlers.answer(ctx, request, step.Type)
	if err == nil && answer.Error != nil && !errorsToo {
		err = answer.Error
	}
	if err != nil {
		return answer, err
	}
	p.Answers = append(p.Answers, answer)
	return answer, handlers.report(ctx, p)
}

func (h *Handlers) report(ctx context.Context, p *Position) error {
	if h.OnPosition == nil {
		return nil
	}
	return h.OnPosition(ctx, p.snapshot())
}

// answer has the right handler answer step. An error means that the step stays
// unanswered and the call stops.
func (h *Handlers) answer(ctx context.Context, r *Request, kind string) (Answer, error) {
	if err := context.Cause(ctx); err != nil {
		return Answer{}, err
	}
	result, err := h.perform(ctx, r, kind)
	if err == nil {
		raw, err := encodeResult(r, result)
		if err != nil {
			return Answer{}, fmt.Errorf("the handler for step %q %w", r.StepID, err)
		}
		return Answer{StepID: r.StepID, Result: raw}, nil
	}
	if errors.Is(err, ErrPause) {
		return Answer{}, err
	}
	if cause := context.Cause(ctx); cause != nil {
		return Answer{}, cause // the handler failed because it was stopped
	}
	failure, ok := errors.AsType[*Error](err)
	if !ok {
		failure = &Error{Code: jsonrpc2.CodeInternalError, Message: err.Error()}
	}
	return Answer{StepID: r.StepID, Error: failure}, nil
}

func (h *Handlers) perform(ctx context.Context, r *Request, kind string) (any, error) {
	switch {
	case kind == "elicitation" && h.Elicit != nil:
		if err := r.parseElicit(); err != nil {
			return nil, err
		}
		return h.Elicit(ctx, r)
	case kind == "sampling" && h.Sample != nil:
		var err error
		if r.Sample, err = (steps.Step{Params: r.Params}).Sample(); err != nil {
			return nil, &Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
		}
		return h.Sample(ctx, r)
	case kind == "roots" && h.Roots != nil:
		return h.Roots(ctx, r)
	case kind != "elicitation" && kind != "sampling" && kind != "roots":
		kind = fmt.Sprintf("steps of type %q", kind)
	}
	return nil, &Error{Code: jsonrpc2.CodeMethodNotFound, Message: "this client does not support " + kind}
}

// parseElicit reads what the user is asked.
func (r *Request) parseElicit() error {
	var wire struct {
		Mode            string          `json:"mode"`
		Message         string          `json:"message"`
		RequestedSchema json.RawMessage `json:"requestedSchema"`
		URL             string          `json:"url"`
	}
	bad := func(format string, args ...any) error {
		return &Error{Code: jsonrpc2.CodeInvalidParams, Message: fmt.Sprintf("elicitation: "+format, args...)}
	}
	if err := jsonv2.Unmarshal(r.Params, &wire); err != nil {
		return bad("%v", err)
	}
	r.Mode, r.Message, r.Schema, r.URL = cmp.Or(wire.Mode, "form"), wire.Message, wire.RequestedSchema, wire.URL
	switch {
	case r.Mode != "form" && r.Mode != "url":
		return bad("this client knows the modes form and url, not %q", r.Mode)
	case r.Mode == "form" && r.Schema == nil:
		return bad("requestedSchema is missing")
	case r.Mode == "url" && r.URL == "":
		return bad("url is missing")
	}
	return nil
}

// encodeResult encodes what a handler returned, if that is an answer. Its errors say
// what is wrong with the handler.
func encodeResult(r *Request, result any) (json.RawMessage, error) {
	switch v := result.(type) {
	case *ElicitResult:
		switch {
		case v == nil:
			return nil, errors.New("returned nothing; return Accept, Decline, Cancel or an error")
		case v.Action != "accept" && v.Action != "decline" && v.Action != "cancel":
			return nil, fmt.Errorf("returned the action %q; use accept, decline or cancel", v.Action)
		case v.Action == "accept" && r.Mode == "form" && v.Content == nil:
			return nil, errors.New("accepted a form without content")
		}
	case *steps.SampleResult:
		if v == nil || v.Role == "" || v.Model == "" {
			return nil, errors.New("returned an answer without role or model; return an error to refuse")
		}
	case []steps.Root:
		list := make([]root, len(v))
		for i, one := range v {
			list[i] = root(one)
		}
		result = map[string]any{"roots": list}
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("returned what JSON cannot hold: %w", err)
	}
	if !bytes.HasPrefix(raw, []byte("{")) {
		return nil, errors.New("returned what is not a JSON object")
	}
	return raw, nil
}

type root struct {
	URI  string `json:"uri"`
	Name string `json:"name,omitempty"`
}

// Cancel ends a call that is suspended at position and has the server undo what
// the tool has done. The result says what was undone and what was not, in words
// and under the key io.github.mcpsaga/undo of its _meta.
//
// If the position's steps are all answered, the server may have taken that turn
// before, though its response was lost. Then the turn is taken first; if it ends
// the call, it is too late to cancel, and the result is the tool's.
//
// A position with a Task has the server end that task, which it may do or not. If it
// does, the error's chain has a [*TaskError] with the status "cancelled"; a result is the
// tool's, for which it was too late.
//
// Cancel may be repeated. Its errors are those of [Client.Call].
func (c *Client) Cancel(ctx context.Context, position Position) (*Result, error) {
	result, err := c.cancel(ctx, position.snapshot())
	if err != nil {
		return nil, &InterruptedError{Position: position, Err: err}
	}
	return result, nil
}

func (c *Client) cancel(ctx context.Context, p Position) (*Result, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	dialect, err := c.dialect(&p)
	switch {
	case p.Task != "":
		return c.cancelTask(ctx, &p)
	case p.Tool == "":
		return nil, positionError("a %s changes nothing, so there is nothing to undo: forget the position", p.Kind())
	case p.Token == "":
		return nil, positionError("the call has not begun: the server knows nothing of it")
	case err != nil:
		return nil, err
	}
	request, can := dialect.cancel(&p)
	if !can {
		return nil, positionError("the protocol %s cannot cancel: forget the position", p.Dialect)
	}
	raw, err := c.send(ctx, request)
	if err != nil {
		return nil, err
	}
	turn, err := dialect.parse(raw, c.options.Limits)
	if err != nil {
		return nil, err
	}
	if turn.result == nil {
		return nil, malformed("the server suspended a call that was to be cancelled")
	}
	return parseResult(turn.result, c.options.Limits)
}

// Outstanding reports whether the result says that something the tool has done
// could not be undone.
func (r *Result) Outstanding() bool {
	var wire struct {
		Meta struct {
			Undo struct {
				Outstanding []string `json:"outstanding"`
			} `json:"io.github.mcpsaga/undo"`
		} `json:"_meta"`
	}
	return json.Unmarshal(r.Raw, &wire) == nil && len(wire.Meta.Undo.Outstanding) > 0
}
