package engine

import (
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Routing says how a question to the user may be asked.
type Routing struct {
	// ID is that of the question as it is declared.
	ID string
	// User: it is the user who is asked.
	User bool
	// Needs are the features of a client that asks it itself.
	Needs steps.Features
	// Allowed are the routes that its author allows; zero is any.
	Allowed steps.Routes
	// Consent: the answer authorises something.
	Consent bool
	// Done is the event that says that the user has finished on the page of a link, or empty.
	Done string
}

// Routing says how the question may be asked that has this id in a message. One that is not declared has no route.
func (t *Program) Routing(id string) Routing {
	id, _, _ = strings.Cut(ident.Base(id), "~") // and what number it is asked for
	q := t.questions[id]
	if q == nil {
		return Routing{ID: id, Allowed: noRoute, Consent: true}
	}
	return Routing{id, q.step.Kind == steps.Elicitation, q.step.Needs, BothRoutes(t.Routes, q.step.Routes), q.step.Consent, q.step.Done}
}

// Routings are those of all questions.
func (t *Program) Routings() (list []Routing) {
	for _, q := range t.Asks {
		list = append(list, t.Routing(q.StepID()))
	}
	return list
}

// noRoute is a set that has none of the routes there are.
const noRoute steps.Routes = 1 << 7

// BothRoutes are the routes that are in both sets, of which zero is any.
func BothRoutes(a, b steps.Routes) steps.Routes {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	case a&b == 0:
		return noRoute
	}
	return a & b
}
