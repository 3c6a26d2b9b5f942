package steps

import (
	"encoding/json"
	"fmt"
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

// Request is anything that can be asked: a declared question as it stands, as its
// With method varies it, or one question [Otherwise] another.
type Request interface {
	// Step returns what to send. It fails if the question is not one that MCP
	// allows; the error says why.
	Step() (Step, error)
}

// Question is a question declared by a tool: *[Form], *[Link], *[Sample] or
// *[RootsList].
type Question interface {
	Request
	// StepID returns the question's id.
	StepID() string
	// Verify reports what is wrong with the question as declared, as far as that
	// can be known before it is asked: what With may still supply (the URL of a
	// [Link], the messages of a [Sample], the choices of a list) may be missing. It
	// is called when a tool is registered, so that a mistake shows before the first
	// user meets it. The error is a *[QuestionError].
	Verify() error
	// Check is for the engine. It decides whether result, as sent by the client, is
	// an answer to step, which was made from this question. Its errors tell whether
	// the client broke the protocol, the user should be asked again, or step was not
	// made from this question.
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
