package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/steps"
)

// answerStep has a step answered. Where an answer cannot be an error, it is returned as one.
func answerStep(ctx context.Context, p *Position, handlers *Handlers, step Step) (Answer, error) {
	request := &Request{Tool: p.Subject(), StepID: step.StepID, Round: p.Round, Params: step.Params}
	answer, err := handlers.answer(ctx, request, step.Type)
	if err == nil && answer.Error != nil && !p.keepsAnswers() {
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
		for i, r := range v {
			list[i] = root(r)
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
