package server_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Who is not of the house does not see the tool. Who is, and lacks the scope, is told what to ask for.
func ExampleOptions_permit() {
	house := []string{"ann", "bob"}
	s := example(server.Options{
		Tools: []saga.Definition{order()},
		Permit: func(_ context.Context, who saga.Caller, kind, name string) error {
			switch {
			case kind != "tool" || name != "order":
				return nil
			case !slices.Contains(house, who.Subject):
				return server.ErrHidden
			case !who.HasScope("orders"):
				return &server.AuthError{Status: 403, Challenge: `Bearer error="insufficient_scope", scope="orders"`}
			}
			return nil
		},
	})
	for _, who := range []saga.Caller{{Subject: "eve"}, {Subject: "bob"}, {Subject: "ann", Scopes: []string{"orders"}}} {
		fmt.Print(who.Subject, ": ")
		asClient(s, who, "")
	}
	fmt.Println("no error")
	// Output:
	// eve: the client reads: there is no tool of that name; tools/list lists the tools of this server
	// bob: the client reads: this needs a permission that the caller does not have
	// ann: no error
}
