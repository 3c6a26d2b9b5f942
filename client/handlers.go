package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Handlers answer what a tool asks. They are called one at a time, in the order
// of the server's steps.
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
	// of each new state of a task, and until when a tool sleeps. It must not take long.
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

// progress returns a token that asks for progress, and what has OnProgress see the notifications
// with it; nothing if the caller does not want them.
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
