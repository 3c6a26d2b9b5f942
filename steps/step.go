package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Kind says what a step asks of the client.
type Kind uint8

// The kinds of step MCP knows. Their parameters are those of the MCP request of
// the same purpose.
const (
	// Elicitation asks the user: elicitation/create.
	Elicitation Kind = iota + 1
	// Sampling asks the client's model: sampling/createMessage.
	Sampling
	// Roots asks which directories the client works in: roots/list.
	Roots
)

// String returns the kind's name: "elicitation", "sampling" or "roots".
func (k Kind) String() string {
	switch k {
	case Elicitation:
		return "elicitation"
	case Sampling:
		return "sampling"
	case Roots:
		return "roots"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Features is a set of things a client may be able to do. A step needs some of
// them; a client that lacks one of these must not be sent the step.
type Features uint16

// The features a client can declare.
const (
	// FormElicitation: the client shows forms.
	FormElicitation Features = 1 << iota
	// URLElicitation: the client opens URLs for the user.
	URLElicitation
	// BasicSampling: the client has a model.
	BasicSampling
	// SamplingTools: the client's model can use tools given in the request.
	SamplingTools
	// SamplingContext: the client can include context from MCP servers.
	SamplingContext
	// ListRoots: the client lists its roots.
	ListRoots

	// AllFeatures is every feature above.
	AllFeatures = ListRoots<<1 - 1
)

var featureNames = []string{"elicitation.form", "elicitation.url", "sampling", "sampling.tools", "sampling.context", "roots"}

// Has reports whether f holds every feature of want.
func (f Features) Has(want Features) bool { return f&want == want }

// String lists the features' MCP capability names, separated by commas.
func (f Features) String() string {
	var names []string
	for i, name := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Step is one thing asked of the client, ready to be sent.
type Step struct {
	// ID correlates the answer with the step. It is unique within a saga.
	ID string
	// Kind says which MCP request Params belong to.
	Kind Kind
	// Params are the parameters of that MCP request, as compact JSON.
	Params json.RawMessage
	// Needs are the features the client must have to be sent this step.
	Needs Features
	// Varied reports that Params differ from those of the question as declared
	// (see [Question]), so they must be remembered until the answer comes.
	Varied bool
	// Otherwise is what to ask a client that lacks Needs, or nil.
	Otherwise *Step
}

// Ask is anything that can be asked: a declared question as it stands, or a
// variation of it made with its With method.
type Ask interface {
	// Step returns what to send. It fails if the question is not one that MCP
	// allows; the error says why.
	Step() (Step, error)
}

// Question is a question declared by a tool: *[Form], *[Link], *[Sample] or
// *[RootsList].
type Question interface {
	Ask
	// StepID returns the question's id.
	StepID() string
	// Check decides whether result, as sent by the client, is an answer to step,
	// which was made from this question. It returns nil, a *[MalformedError] if
	// the client broke the protocol, or an *[InvalidError] if the user should be
	// asked again. Any other error says that step was not made from this question.
	Check(step Step, result json.RawMessage) error
}

// Answer is what the client returned for one step: either Result or Error is set.
type Answer struct {
	// StepID is the id of the step that was answered.
	StepID string
	// Result is the result object of the MCP request, as the client sent it.
	Result json.RawMessage
	// Error says that the client failed to perform the step.
	Error *ClientError
}

// Answers gives access to the answers that came for the last suspension. A
// turn of a saga implements it.
type Answers interface {
	// StepAnswer returns the answer to the step with the given id, and false if
	// that step was not asked in the last suspension.
	StepAnswer(id string) (Answer, bool)
}

// Outcomes of a step other than an answer. Match them with [errors.Is].
var (
	// ErrDeclined: the user explicitly said no.
	ErrDeclined = errors.New("declined by the user")
	// ErrCancelled: the user dismissed the question without choosing.
	ErrCancelled = errors.New("cancelled by the user")
	// ErrNotAsked: the step was not part of the last suspension, so there is no
	// answer to read. Answers are available only in the step function that runs
	// right after the suspension; keep what you need later in the state.
	ErrNotAsked = errors.New("not asked in the last suspension")
)

// StepError says which step did not bring an answer, and why. Err is
// [ErrDeclined], [ErrCancelled], [ErrNotAsked], a *[ClientError] or a decoding error.
type StepError struct {
	// StepID is the step's id.
	StepID string
	// Err is why there is no answer.
	Err error
}

// Error implements error.
func (e *StepError) Error() string { return fmt.Sprintf("step %q: %v", e.StepID, e.Err) }

// Unwrap returns Err.
func (e *StepError) Unwrap() error { return e.Err }

// ClientError is a failure on the client's side: it could not perform a step.
type ClientError struct {
	// Code is a JSON-RPC error code.
	Code int64 `json:"code"`
	// Message is the client's description. It is the client's text: do not trust it.
	Message string `json:"message"`
	// Data is whatever else the client said, or nil.
	Data json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *ClientError) Error() string {
	return fmt.Sprintf("the client could not perform the step: %s (code %d)", e.Message, e.Code)
}

// MalformedError says that a client's answer is not of the shape MCP demands
// for the step. The client should correct it and send it again.
type MalformedError struct {
	// StepID is the step's id.
	StepID string
	// Reason says what is wrong with the result, for the client's author.
	Reason string
}

// Error implements error.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("the result of step %q is malformed: %s", e.StepID, e.Reason)
}

// InvalidError says that what the user entered does not satisfy the form's
// schema. The user should be asked again.
type InvalidError struct {
	// StepID is the id of the step, or empty if a [FormSpec] was used by itself.
	StepID string
	// Reason is for the user: for each broken rule the field's title and what the
	// value must be, separated by semicolons.
	Reason string
}

// Error implements error.
func (e *InvalidError) Error() string {
	if e.StepID == "" {
		return "the content is not valid: " + e.Reason
	}
	return fmt.Sprintf("the content of step %q is not valid: %s", e.StepID, e.Reason)
}
