package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Handlers answer what a tool asks. They are called one at a time, in the order
// of the server's steps. If one panics, the call stops, and panics so where it was made.
//
// A kind of step without a handler is answered with an error saying that this
// client does not support it; the tool decides what that means.
//
// What a handler returns as its error becomes the step's error and is sent to
// the server: an [*Error] as it is, any other error as its text with the code
// -32603. Return an [*Error] to keep details (paths, addresses) to yourself.
// [ErrPause], and any error once the context is done, are not sent but stop the
// call, with the step still to be answered.
type Handlers struct {
	// Elicit asks the user.
	Elicit func(context.Context, *Request) (*ElicitResult, error)
	// Sample asks a model. MCP expects that a person can see and refuse what is
	// sent to it.
	Sample func(context.Context, *Request) (*steps.SampleResult, error)
	// Roots lists the directories the server may work in.
	Roots func(context.Context, *Request) ([]steps.Root, error)

	// OnPosition is called with every new position: after each suspension and
	// after each answered step, and when the call has become a task. If it fails, the
	// call stops with its error. It is not called at the end; a finished call has no
	// position.
	OnPosition func(context.Context, Position) error
	// OnProgress, if not nil, asks the server for progress, and gets it as it comes,
	// of each new state of a task, and until when a tool sleeps. It must not take long, nor use the client.
	OnProgress func(Progress)
}

// capabilities are what a client that answers with h declares.
func (h *Handlers) capabilities() map[string]any {
	capabilities := map[string]any{}
	if h.Elicit != nil {
		capabilities["elicitation"] = map[string]any{"form": struct{}{}, "url": struct{}{}}
	}
	if h.Sample != nil {
		capabilities["sampling"] = struct{}{}
	}
	if h.Roots != nil {
		capabilities["roots"] = struct{}{}
	}
	return capabilities
}

// Request is a step that a handler is to answer. All texts are the server's: do not
// trust them, and strip control sequences before a terminal shows them.
type Request struct {
	Tool string // the tool that asks, or the prompt or resource
	// StepID names the step within the call. A question that is asked again comes
	// with another id, which starts with the first one, a ~ and a number.
	StepID string
	Round  int             // number of the suspension, from 1
	Params json.RawMessage // parameters of the step as they came

	Mode    string          // how the user is asked: form or url
	Message string          // what the user is to know
	Schema  json.RawMessage // in form mode, the JSON schema of the content: a flat object
	URL     string          // in url mode, the address to visit; show it and ask before opening it

	Sample *steps.SampleRequest // what the model is asked; nil if the user is asked
}

// Form returns the form to show, in form mode. Its Validate method judges what
// the user enters as the server will. The error is a [*steps.QuestionError]: the
// server asks for something that MCP does not allow in a form.
func (r *Request) Form() (*steps.FormSpec, error) { return steps.Step{Params: r.Params}.Form() }

// ElicitResult is what the user did. Make one with [Accept], [Decline] or [Cancel].
type ElicitResult struct {
	Action  string `json:"action"`            // accept, decline or cancel
	Content any    `json:"content,omitempty"` // what the user entered in a form; anything that encodes to a JSON object
}

// Accept answers a form with what the user entered: a struct or a map whose
// values are strings, numbers, booleans and lists of strings. In url mode content is
// nil: the user agreed to open the address.
func Accept(content any) *ElicitResult { return &ElicitResult{Action: "accept", Content: content} }

// Decline says that the user explicitly refused.
func Decline() *ElicitResult { return &ElicitResult{Action: "decline"} }

// Cancel says that the user dismissed the question without choosing.
func Cancel() *ElicitResult { return &ElicitResult{Action: "cancel"} }

// Reply is a model's answer in plain text.
func Reply(model, text string) *steps.SampleResult {
	return &steps.SampleResult{
		Role:       content.Assistant,
		Content:    content.Blocks{content.Text{Text: text}},
		Model:      model,
		StopReason: "endTurn",
	}
}

// Progress says how far a call is.
type Progress struct {
	// Done is how much is done, and Total how much there is, or 0 if that is not known.
	// Their unit is the server's. Both are finite numbers.
	Done, Total float64
	Message     string    // what is being done, or empty; the server's
	Task        *Task     // state of the task that the call has become, or nil
	Until       time.Time // when the server is asked again, if the tool sleeps and nothing is done
}

// progress returns a token that asks for progress, and what gets the notifications; nothing if none are wanted.
func (h *Handlers) progress() (token string, notify func(method string, params json.RawMessage)) {
	if h.OnProgress == nil {
		return "", nil
	}
	token = rand.Text()
	return token, func(method string, params json.RawMessage) {
		var wire struct {
			Token   string  `json:"progressToken"`
			Done    float64 `json:"progress"`
			Total   float64 `json:"total"`
			Message string  `json:"message"`
		}
		if method == "notifications/progress" && jsonv2.Unmarshal(params, &wire) == nil && wire.Token == token {
			h.OnProgress(Progress{Done: wire.Done, Total: max(wire.Total, 0), Message: wire.Message})
		}
	}
}

// answerStep has a step answered. Where an answer cannot be an error, it is returned as one.
func answerStep(ctx context.Context, p *Position, handlers *Handlers, step Step) error {
	request := &Request{Tool: p.Subject(), StepID: step.StepID, Round: p.Round, Params: step.Params}
	answer, err := handlers.answer(ctx, request, step.Type)
	if err == nil && answer.Error != nil && !p.keepsAnswers() {
		err = answer.Error
	}
	if err != nil {
		return err
	}
	p.Answers = append(p.Answers, answer)
	return handlers.report(ctx, p)
}

func (h *Handlers) report(ctx context.Context, p *Position) error {
	if h.OnPosition == nil {
		return nil
	}
	return h.OnPosition(ctx, p.snapshot())
}

// answer has the right handler answer step. An error stops the call, with the step unanswered.
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

// panicked is what a handler has panicked with in a goroutine that is not the call's, where no author's code could recover from it.
type panicked struct{ value atomic.Pointer[any] }

// guard runs a handler, and stop if it does not return.
func (p *panicked) guard(stop, handler func()) {
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				p.value.Store(&v)
			}
			stop()
		}
	}()
	handler()
	returned = true
}

// again panics as the handler has, if one has.
func (p *panicked) again() {
	if v := p.value.Load(); v != nil {
		panic(*v)
	}
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

// encodeResult encodes what a handler returned. Its errors say what is wrong with the handler.
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
		result = map[string]any{"roots": append([]steps.Root{}, v...)} // not null
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
