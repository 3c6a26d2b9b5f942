package steps

import "strings"

// Routes are ways by which a question may reach the user where the client cannot be asked: a set,
// whose zero value is all. A server goes by the first of them that there is, in the order in which
// they are here.
type Routes uint8

// The routes of a question.
const (
	// RouteClient: the client asks its user.
	RouteClient Routes = 1 << iota
	// RouteApp: a form of the server's in the window of the host (MCP Apps).
	RouteApp
	// RoutePage: a web page of the server's.
	RoutePage
	// RouteRelay: the model asks its user in the chat, and calls the tool again with the answer.
	RouteRelay
)

// allRoutes are the routes there are.
const allRoutes = RouteClient | RouteApp | RoutePage | RouteRelay

// Has reports whether a route is in the set.
func (r Routes) Has(route Routes) bool { return r == 0 || r&route == route }

// String lists the routes, separated by commas.
func (r Routes) String() string {
	if r == 0 {
		return "any"
	}
	var names []string
	for i, name := range []string{"client", "app", "page", "relay"} {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// checkRoutes reports what is wrong with the routes of a question.
func checkRoutes(id string, r Routes, consent bool) error {
	switch {
	case r&^allRoutes != 0:
		return &QuestionError{StepID: id, Reason: "its Routes have one that there is not"}
	case consent && r == RouteRelay:
		return &QuestionError{StepID: id, Reason: "its only route is RouteRelay, and no model may give a Consent"}
	}
	return nil
}
