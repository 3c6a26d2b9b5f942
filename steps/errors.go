package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Outcomes other than an answer. Match them with [errors.Is].
var (
	// ErrDeclined: the user explicitly said no.
	ErrDeclined = errors.New("declined by the user")
	// ErrCancelled: the user dismissed the question without choosing.
	ErrCancelled = errors.New("cancelled by the user")
	// ErrTimeout: an [Event] has not happened in time.
	ErrTimeout = errors.New("it has not happened in time")
	// ErrNotAsked: the step was not asked in the last suspension. Answers can be read
	// only in the step function that runs right after it, and in those that this one
	// goes to with Goto: keep what you need later in the state.
	ErrNotAsked = errors.New("not asked in the last suspension")
)

// StepError says which step did not bring an answer, and why. Err is
// [ErrDeclined], [ErrCancelled], [ErrTimeout], [ErrNotAsked], a *[ClientError] or a decoding error.
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

// ClientError says that the client could not perform a step.
type ClientError struct {
	// Code is a JSON-RPC error code.
	Code int64 `json:"code"`
	// Message is the client's text: do not trust it.
	Message string `json:"message"`
	// Data is whatever else the client said, or nil.
	Data json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *ClientError) Error() string {
	return fmt.Sprintf("the client could not perform the step: %s (code %d)", e.Message, e.Code)
}

// QuestionError says why a question cannot be asked.
type QuestionError struct {
	// StepID is the question's id. It is empty for a form that was parsed.
	StepID string
	// Where names the place within the question, as a Go field and its tag, or is empty.
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

// withID returns err as an error of question id, if it is about a question or a field, or
// joins such errors.
func withID(id string, err error) error {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		var all []error
		for _, e := range e.Unwrap() {
			all = append(all, withID(id, e))
		}
		return errors.Join(all...)
	case *schema.FieldError:
		return &QuestionError{StepID: id, Where: e.Where(), Reason: e.Reason}
	case *QuestionError:
		return &QuestionError{StepID: id, Where: e.Where, Reason: e.Reason}
	}
	return err
}
