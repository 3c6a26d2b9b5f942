package sagatest

import (
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Asked is a step as the client gets it, with methods to read it.
type Asked struct {
	steps.Step
	// Question is the question's id. The step's own ID differs from it when the
	// question was asked before: the second time it is "city~2".
	Question string
	// Again counts from 0 how often the question was asked before.
	Again int
}

func asked(s steps.Step) Asked {
	a := Asked{Step: s, Question: s.ID}
	if base, n, ok := strings.Cut(s.ID, "~"); ok {
		if count, err := strconv.Atoi(n); err == nil {
			a.Question, a.Again = base, count-1
		}
	}
	return a
}

// Form returns the form that is shown to the user, or nil if it is none.
func (a Asked) Form() *steps.FormSpec {
	f, _ := a.Step.Form() // what is wrong with other steps is that they are none
	return f
}

// Link returns the link that the user is to open, or nil if it is none.
func (a Asked) Link() *steps.Link {
	l, _ := a.Step.Link()
	return l
}

// Request returns what the model is asked, or nil if it is not a sampling.
func (a Asked) Request() *steps.SampleRequest {
	r, _ := a.Sample()
	return r
}

// Message returns what the user reads, what is said of an event, or what the model is asked: the texts of
// all messages, one per line.
func (a Asked) Message() string {
	if text, ok := jsonview.String(jsonview.Get(a.Params, "message")); ok {
		return text
	}
	var texts []string
	if r := a.Request(); r != nil {
		for _, m := range r.Messages {
			texts = append(texts, m.Content.Text())
		}
	}
	return strings.Join(texts, "\n")
}

// Choices returns the values that a form's field offers, or nil.
func (a Asked) Choices(field string) []string {
	var values []string
	for _, c := range a.field(field).Choices {
		values = append(values, c.Value)
	}
	return values
}

// Default returns what a form's field shows at first, or nil.
func (a Asked) Default(field string) any { return a.field(field).Default }

func (a Asked) field(name string) (found steps.Field) {
	if f := a.Form(); f != nil {
		found, _ = f.Field(name)
	}
	return found
}
