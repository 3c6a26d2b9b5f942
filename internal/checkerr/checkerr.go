// Package checkerr has the errors by which a question's Check method says whose
// mistake an answer is: the client's ([MalformedError]) or the user's
// ([InvalidError]). Servers handle them; the code of tools never sees them.
package checkerr

import "fmt"

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
	// StepID is the id of the step, or empty if a form was used by itself.
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

// FieldError says which rule a value breaks.
type FieldError struct {
	// Name is the field's key in the content.
	Name string
	// Label is what the user knows the field by.
	Label string
	// Rule is what the value must be, such as "must be at least 3 characters long".
	Rule string
}

// Error returns the label and the rule, a sentence for the user.
func (e *FieldError) Error() string { return e.Label + ": " + e.Rule }
