package main

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The tool of the SDK: one request, one result.

type nothing struct{}

type dishes struct {
	Dishes []string `json:"dishes"`
}

func menu(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, dishes, error) {
	return nil, dishes{[]string{"onion soup", "quiche", "crème brûlée"}}, nil
}

// The saga: it asks the user twice, and books nothing unless both times the user
// agrees. Any replica with the same keys can take the next turn.

type booking struct {
	Name string `json:"name,omitempty" jsonschema:"the name to book for"`
}

type party struct {
	Guests int    `json:"guests" title:"How many of you?" minimum:"1" maximum:"12"`
	At     string `json:"at" title:"When?" enum:"12:00|13:00|19:00|20:30"`
}

type consent struct {
	Agreed bool `json:"agreed" title:"Book it"`
}

var (
	askParty   = &steps.Form[party]{ID: "party", Message: "For how many, and when?"}
	askConsent = &steps.Form[consent]{ID: "consent", Message: "Book the table?"}
)

var bookTable = saga.Flow[booking, string]{
	Info: saga.Info{
		Name: "book_table", Description: "Books a table for today.",
		Asks: []steps.Question{askParty, askConsent},
	},
	Run: func(r *saga.Run, in booking) (string, error) {
		p, err := saga.Ask(r, askParty)
		if err != nil {
			return "", err
		}
		offer := fmt.Sprintf("A table for %d at %s", p.Guests, p.At)
		if in.Name != "" {
			offer += ", for " + in.Name
		}
		answer, err := saga.Ask(r, askConsent.With(steps.Message(offer+". Shall I book it?")))
		if err != nil {
			return "", err
		}
		if !answer.Agreed {
			return "", saga.Failf("The user did not want it.")
		}
		return offer + ": booked.", nil
	},
}
