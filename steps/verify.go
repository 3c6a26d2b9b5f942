package steps

import (
	"errors"
	"strconv"
)

// Verifier is implemented by every question of this package.
type Verifier interface {
	// Verify reports what is wrong with the question as declared, as far as that
	// can be known before it is asked. What may still be supplied by With (the URL
	// of a [Link], the messages of a [Sample], the choices of a list) may be
	// missing. The error is a *[QuestionError].
	Verify() error
}

// Verify reports what is wrong with a declared question. Call it when a tool is
// registered, so that a mistake shows before the first user meets it. The error
// is a *[QuestionError].
func Verify(q Question) error {
	if q == nil {
		return &QuestionError{Reason: "is nil"}
	}
	if v, ok := q.(Verifier); ok {
		return v.Verify()
	}
	_, err := q.Step()
	return err
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
