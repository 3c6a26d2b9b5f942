// Package answers answers the steps of a call from a file, for scripts and tests.
//
// The file is a JSON object: step ids, and what to answer.
//
//	{
//	  "target":  {"environment": "production", "count": 2},
//	  "sign-in": "accept",
//	  "advice":  "Yes, all systems are green."
//	}
//
// A form is answered with an object, or with "decline" or "cancel"; a link with
// "accept", "decline" or "cancel"; a sampling step with the text that the model
// would say, with a whole sampling result, or with null to refuse. A question
// asked in a loop ("item#2") can be answered by the id it was declared with
// ("item"). A question that the tool asks again because it could not use the
// answer ("item~2") needs an answer of its own.
package answers

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

// File is a file of answers, by step id.
type File map[string]json.RawMessage

// NeededError says that a step has no answer, or one that does not fit. The step stays
// unanswered: the error's chain holds [client.ErrPause].
type NeededError struct{ Reason string }

// Error implements error.
func (e *NeededError) Error() string { return e.Reason }

// Unwrap returns client.ErrPause.
func (e *NeededError) Unwrap() error { return client.ErrPause }

func needed(format string, args ...any) error { return &NeededError{fmt.Sprintf(format, args...)} }

func unfit(stepID, must string) error { return needed("the answer for step %q %s", stepID, must) }

// Load reads the file at path; "-" is the standard input.
func Load(path string) (File, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(os.Stdin)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("the answers: %w", err)
	}
	return Parse(data)
}

// Parse reads the text of a file.
func Parse(data []byte) (File, error) {
	f := File{}
	if err := jsonv2.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("the answers must be a JSON object of step ids and answers: %w", err)
	}
	return f, nil
}

func (f File) lookUp(stepID string) (json.RawMessage, bool) {
	if answer, found := f[stepID]; found {
		return answer, true
	}
	if strings.Contains(stepID, "~") {
		return nil, false // the answer was given before, and was not good
	}
	answer, found := f[ident.Base(stepID)]
	return answer, found
}

// Has reports whether there is an answer for the step.
func (f File) Has(stepID string) bool {
	_, found := f.lookUp(stepID)
	return found
}

// Elicit answers a form or link. The error is a [*NeededError].
func (f File) Elicit(r *client.Request) (*client.ElicitResult, error) {
	raw, found := f.lookUp(r.StepID)
	if !found {
		return nil, needed("the answers have none for step %q, which asks: %s", r.StepID, r.Message)
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch {
		case word == "decline":
			return client.Decline(), nil
		case word == "cancel":
			return client.Cancel(), nil
		case word == "accept" && r.Mode == "url":
			return client.Accept(nil), nil
		}
	}
	if r.Mode == "url" {
		return nil, unfit(r.StepID, `must be "accept", "decline" or "cancel"`)
	}
	form, err := r.Form()
	if err != nil {
		return nil, unfit(r.StepID, "cannot be checked, the form is faulty: "+err.Error())
	}
	var content map[string]any
	if json.Unmarshal(raw, &content) != nil || content == nil {
		return nil, unfit(r.StepID, `must be an object with the form's fields, "decline" or "cancel"`)
	}
	if err := form.Validate(content); err != nil {
		return nil, unfit(r.StepID, "does not fit its form: "+err.Error()+" (its fields: "+plain.Short(fieldsOf(form), 1000)+")")
	}
	return client.Accept(raw), nil
}

// fieldsOf lists a form's fields by the names and values that a file must use. Errors of
// validation name them by the titles that a person would see.
func fieldsOf(form *steps.FormSpec) string {
	var fields []string
	for _, f := range form.Fields {
		var values []string
		for _, choice := range f.Choices {
			values = append(values, strconv.Quote(choice.Value))
		}
		fields = append(fields, strings.TrimSpace(f.Name+" "+strings.Join(values, " or ")))
	}
	return strings.Join(fields, ", ")
}

// Sample answers a sampling step. The error is a [*NeededError], or a [*client.Error]
// that refuses.
func (f File) Sample(r *client.Request) (*steps.SampleResult, error) {
	raw, found := f.lookUp(r.StepID)
	if !found {
		ask := "a completion"
		if n := len(r.Sample.Messages); n > 0 {
			ask = r.Sample.Messages[n-1].Content.Text()
		}
		return nil, needed("the answers have none for step %q, which asks: %s", r.StepID, ask)
	}
	if string(raw) == "null" {
		return nil, Refused()
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return client.Reply("answers-file", text), nil
	}
	result := new(steps.SampleResult)
	if err := json.Unmarshal(raw, result); err != nil {
		return nil, unfit(r.StepID, "must be a text, a sampling result, or null: "+err.Error())
	}
	return result, nil
}

// Refused is the answer to a sampling step that the user does not allow.
func Refused() *client.Error {
	return &client.Error{Code: -1, Message: "User rejected sampling request"}
}
