package client

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/steps"
)

// answer has the right handler answer step. An error means that the step stays
// unanswered and the call stops.
func (h *Handlers) answer(ctx context.Context, info StepInfo, kind string) (Answer, error) {
	if err := context.Cause(ctx); err != nil {
		return Answer{}, err
	}
	result, err := h.perform(ctx, info, kind)
	if err == nil {
		var raw stdjson.RawMessage
		if raw, err = encodeResult(info.StepID, result); err != nil {
			return Answer{}, err
		}
		return Answer{StepID: info.StepID, Result: raw}, nil
	}
	var misused *HandlerError
	if errors.As(err, &misused) || errors.Is(err, ErrPause) {
		return Answer{}, err
	}
	if cause := context.Cause(ctx); cause != nil {
		return Answer{}, cause // the handler failed because it was stopped
	}
	failure := &Error{Code: CodeInternal, Message: err.Error()}
	var own *Error
	if errors.As(err, &own) {
		failure = own
	}
	return Answer{StepID: info.StepID, Error: failure}, nil
}

// perform calls the handler for one kind of step.
func (h *Handlers) perform(ctx context.Context, info StepInfo, kind string) (any, error) {
	unsupported := func(what string) error {
		return &Error{Code: CodeMethodNotFound, Message: "this client does not support " + what}
	}
	switch kind {
	case "elicitation":
		if h.Elicit == nil {
			return nil, unsupported(kind)
		}
		request, err := parseElicit(info)
		if err != nil {
			return nil, err
		}
		result, err := h.Elicit(ctx, request)
		if err != nil {
			return nil, err
		}
		return result, checkElicit(request, result)
	case "sampling":
		if h.Sample == nil {
			return nil, unsupported(kind)
		}
		request, err := steps.Step{Params: info.Params}.Sample()
		if err != nil {
			return nil, &Error{Code: CodeInvalidParams, Message: err.Error()}
		}
		result, err := h.Sample(ctx, &SampleRequest{StepInfo: info, Request: request})
		if err == nil && (result == nil || result.Role == "" || result.Model == "") {
			err = &HandlerError{StepID: info.StepID, Reason: "returned an answer without role or model; return an error to refuse"}
		}
		return result, err
	case "roots":
		if h.Roots == nil {
			return nil, unsupported(kind)
		}
		result, err := h.Roots(ctx, &RootsRequest{StepInfo: info})
		if err == nil && result == nil {
			result = &RootsResult{}
		}
		if result != nil && result.Roots == nil {
			result = &RootsResult{Roots: []Root{}}
		}
		return result, err
	}
	return nil, unsupported(fmt.Sprintf("steps of type %q", kind))
}

func parseElicit(info StepInfo) (*ElicitRequest, error) {
	var wire struct {
		Mode            string             `json:"mode"`
		Message         string             `json:"message"`
		RequestedSchema stdjson.RawMessage `json:"requestedSchema"`
		URL             string             `json:"url"`
	}
	bad := func(format string, args ...any) error {
		return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf("elicitation: "+format, args...)}
	}
	if err := json.Unmarshal(info.Params, &wire); err != nil {
		return nil, bad("%v", err)
	}
	switch {
	case wire.Mode == "":
		wire.Mode = "form"
	case wire.Mode != "form" && wire.Mode != "url":
		return nil, bad("this client knows the modes form and url, not %q", wire.Mode)
	}
	if wire.Mode == "form" && wire.RequestedSchema == nil {
		return nil, bad("requestedSchema is missing")
	}
	if wire.Mode == "url" && wire.URL == "" {
		return nil, bad("url is missing")
	}
	return &ElicitRequest{
		StepInfo: info, Mode: wire.Mode, Message: wire.Message, Schema: wire.RequestedSchema, URL: wire.URL,
	}, nil
}

func checkElicit(request *ElicitRequest, result *ElicitResult) error {
	misused := func(reason string) error { return &HandlerError{StepID: request.StepID, Reason: reason} }
	switch {
	case result == nil:
		return misused("returned nothing; return Accept, Decline, Cancel or an error")
	case result.Action != "accept" && result.Action != "decline" && result.Action != "cancel":
		return misused(fmt.Sprintf("returned the action %q; use accept, decline or cancel", result.Action))
	case result.Action == "accept" && request.Mode == "form" && result.Content == nil:
		return misused("accepted a form without content")
	}
	return nil
}

func encodeResult(stepID string, result any) (stdjson.RawMessage, error) {
	raw, err := stdjson.Marshal(result)
	if err != nil {
		return nil, &HandlerError{StepID: stepID, Reason: "returned what JSON cannot hold: " + err.Error()}
	}
	if !bytes.HasPrefix(raw, []byte("{")) {
		return nil, &HandlerError{StepID: stepID, Reason: "returned what is not a JSON object"}
	}
	return raw, nil
}
