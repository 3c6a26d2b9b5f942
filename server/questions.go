package server

import (
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Questions says how a [Server] asks users whose clients cannot ask them. The zero value is for use: the model of such a
// client relays what the tool asks, but for consents.
type Questions struct {
	// Force are the only routes of questions, for tests, and for clients that declare what they do not do. Zero is
	// what the client declares.
	Force steps.Routes
	// NoRelay has no model relay anything.
	NoRelay bool
}

func (q *Questions) dialect() dialect.Questions {
	return dialect.Questions{Force: q.Force, NoRelay: q.NoRelay}
}
