package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Outcomes of a step other than an answer. Match them with [errors.Is].
var (
	// ErrDeclined: the user explicitly said no.
	ErrDeclined = errors.New("declined by the user")
	// ErrCancelled: the user dismissed the question without choosing.
	ErrCancelled = errors.New("cancelled by the user")
	// ErrNotAsked: the step was not part of the last suspension, so there is no
	// answer to read. Answers are available only in the step function that runs
	// right after the suspension, and in those that it goes to with Goto; keep what you
	// need later in the state.
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

// QuestionError says why a question cannot be asked: it is not one that MCP
// allows, or lacks something.
type QuestionError struct {
	// StepID is the question's id. It is empty for a form that was parsed.
	StepID string
	// Where names the place within the question, such as the Go field and the
	// struct tag, or is empty.
	Where string
	// Reason says what is wrong and, where there is a choice, what is allowed.
	Reason string
}

// Error implements error.
func (e *QuestionError) Error() string {
	s := "question"
	if e.StepID != "" {
		s += " " + strconv.Quote(e.StepID)
	}
	if e.Where != "" {
		s += ": " + e.Where
	}
	return s + ": " + e.Reason
}

// withID returns err, if it is a *QuestionError, as one of question id.
func withID(id string, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, withID(id, e))
		}
		return errors.Join(all...)
	}
	if qe, ok := err.(*QuestionError); ok && qe.StepID != id {
		dup := *qe
		dup.StepID = id
		return &dup
	}
	return err
}
