package steps

import (
	"errors"
	"strconv"
)

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
