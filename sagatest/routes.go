package sagatest

import (
	"fmt"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/relay"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Via has the answer come by another route than the client. The play is then in a host whose client asks its user
// nothing, at a server that has the routes which the script's answers name; an answer without one takes the first
// that its question may take. What the model reads is in the [Round]. It reads a refusal if the script has it answer a
// question that is a Consent, which takes the script's next answer; and a question that no route is open
// for ends the saga, and undoes it. A host that answers a Consent by [steps.RouteApp] is one that the operator trusts.
func (a Answer) Via(route steps.Routes) Answer {
	a.route = route
	return a
}

// routes are those by which answers come; none if the client gives all of them.
func (s *script) routes() (all steps.Routes) {
	for _, list := range s.answers {
		for _, a := range list {
			all |= a.route &^ steps.RouteClient
		}
	}
	return all
}

// follow has the client answer by a script.
func (c *client) follow(s *script) {
	c.script = s
	if routes := s.routes(); routes != 0 {
		c.moveTo(routes)
	}
}

// moveTo has the questions asked by these routes, as the client cannot.
func (c *client) moveTo(routes steps.Routes) {
	c.rig.routes, c.rig.client, c.latest = routes, steps.Features{Forms: true, Links: true}, true
}

// open are the routes by which a question can be answered.
func (r *rig) open(question string) steps.Routes { return openOf(r.tool.Routing(question), r.routes) }

func openOf(q engine.Routing, routes steps.Routes) steps.Routes {
	if q.Consent {
		routes &^= steps.RouteRelay
	}
	if q.Allowed != 0 {
		routes &= q.Allowed
	}
	return routes
}

// unasked is a question that a saga waits for and that no route is open for; "" if there is none.
func (r *rig) unasked(rep *reply) string {
	for _, s := range rep.Steps {
		if r.routes != 0 && r.open(s.ID) == 0 {
			return s.ID
		}
	}
	return ""
}

// refuses notes that an answer is not taken, as it comes by a route that is not open.
func (c *client) refuses(a Asked, answer Answer) (bool, error) {
	if answer.route == 0 || c.rig.routes == 0 || c.rig.open(a.ID)&answer.route != 0 {
		return false, nil
	}
	if c.times(a) > len(c.script.answers[a.Question]) {
		return false, fmt.Errorf("the answer to %q comes by %v, which is never taken.\n  what to do: have it come Via another route, or let the tool allow this one", a.Question, answer.route)
	}
	c.untaken = append(c.untaken, a.Question)
	if n := len(c.rounds) - 1; n >= 0 {
		c.rounds[n].Words = append(slices.Clip(c.rounds[n].Words), c.words(c.last, relay.Person(a.ID)))
	}
	return true, nil
}

// times is how often a question was asked or its answer refused, before.
func (c *client) times(a Asked) (n int) {
	for _, q := range c.untaken {
		if q == a.Question {
			n++
		}
	}
	return a.Again + n
}

// words are what the model reads of a response.
func (c *client) words(rep reply, refusal string) string {
	w := relay.Words{Program: c.rig.tool, Token: "TOKEN", Refusal: refusal, Working: len(rep.Steps) == 0, Wake: rep.Wake}
	for _, s := range rep.Steps {
		w.Ask(s, c.rig.open(s.ID))
	}
	if w.Pages {
		w.URL = "LINK"
	}
	return w.Text()
}

// routes: the user is asked by one of the routes that hosts have whose clients ask nothing.
func (s *sweep) routes() (list []scenario) {
	others := func(q engine.Routing) bool { return !q.User && q.Needs != (steps.Features{}) }
	if s.script.routes() != 0 || s.tool.Kind != engine.KindTool || s.tool.Yields || s.c.Client != (steps.Features{}) ||
		len(s.base.rounds) == 0 || slices.ContainsFunc(s.tool.Routings(), others) {
		return nil
	}
	for _, route := range []steps.Routes{steps.RouteApp, steps.RoutePage, steps.RouteRelay} {
		want := asUndisturbed
		for _, r := range s.base.rounds {
			if slices.ContainsFunc(r.Asked, func(a Asked) bool { return openOf(s.tool.Routing(a.ID), route) == 0 }) {
				want = undone
			}
		}
		list = append(list, scenario{fmt.Sprintf("the user is asked by %v, as the client cannot", route), 0, want, func(x *trial, _ request) {
			x.moveTo(route)
			x.play()
		}})
	}
	return list
}
