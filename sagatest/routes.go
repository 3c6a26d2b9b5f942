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

// open are those of some routes by which a question can be answered.
func (r *rig) open(question string, routes steps.Routes) steps.Routes {
	q := r.tool.Routing(question)
	if q.Consent {
		routes &^= steps.RouteRelay
	}
	return engine.BothRoutes(q.Allowed, routes) & routes
}

// unasked is a question that a saga waits for and that no route is open for; "" if there is none.
func (r *rig) unasked(rep *reply) string {
	for _, s := range rep.Steps {
		if r.routes != 0 && r.open(s.ID, r.routes) == 0 {
			return s.ID
		}
	}
	return ""
}

// reaches reports whether an answer is taken that comes by a route, of which zero is any.
func (c *client) reaches(a Asked, by steps.Routes) bool {
	return by == 0 || c.rig.routes == 0 || a.Kind == steps.Outside || c.rig.open(a.ID, c.rig.routes)&by != 0
}

// refuse notes that an answer was not taken, which the model reads.
func (c *client) refuse(a Asked) {
	c.untaken = append(c.untaken, a.Question)
	if n := len(c.rounds) - 1; n >= 0 {
		c.rounds[n].Words = append(slices.Clip(c.rounds[n].Words), c.words(c.last, relay.Person(a.ID)))
	}
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
		w.Ask(s, c.rig.open(s.ID, c.rig.routes))
	}
	if w.Pages {
		w.URL = "LINK"
	}
	return w.Text()
}

// routes: the user is asked by one of the routes that hosts have whose clients ask nothing.
func (s *sweep) routes() {
	others := func(q engine.Routing) bool { return !q.User && q.Needs != (steps.Features{}) }
	if s.script.routes() != 0 || s.tool.Kind != engine.KindTool || s.tool.Yields || s.c.Client != (steps.Features{}) ||
		len(s.base.rounds) == 0 || slices.ContainsFunc(s.tool.Routings(), others) {
		return
	}
	for _, route := range []steps.Routes{steps.RouteApp, steps.RoutePage, steps.RouteRelay} {
		want := asUndisturbed
		for _, r := range s.base.rounds {
			if slices.ContainsFunc(r.Asked, func(a Asked) bool { return s.base.rig.open(a.ID, route) == 0 }) {
				want = undone
			}
		}
		s.add(fmt.Sprintf("the user is asked by %v, as the client cannot", route), 0, want, func(x *trial, _ request) {
			x.moveTo(route)
			x.play()
		})
	}
}
