package server

import (
	"net/http"
	"slices"

	"github.com/mcpsaga/mcpsaga/server/internal/async"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake"
	"github.com/mcpsaga/mcpsaga/server/internal/proposal"
	"github.com/mcpsaga/mcpsaga/server/internal/stateless"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Each protocol is a package under internal, which knows nothing of the others and of how
// messages travel; the transports are http.go, stdio.go and handle.go, and know no protocol
// by name. What is between them is package dialect.

// registration is a dialect that every server has.
type registration struct {
	new dialect.New
	// revisions are those of MCP that it speaks, newest first.
	revisions []string
}

// registered are the dialects. The first that matches a message serves it.
var registered = []registration{
	{stateless.New, stateless.Revisions()},
	{proposal.New, nil},
	{async.New, nil},
	{handshake.New, handshake.Revisions()},
}

// Revisions returns the revisions of MCP that a [Server] speaks, newest first. It
// speaks the saga proposal besides.
func Revisions() []string { return revisions(registered) }

func revisions(of []registration) (all []string) {
	for _, r := range of {
		all = append(all, r.revisions...)
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all
}

// notServed is the error of a message that no dialect matches.
func notServed() *wire.Error {
	return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "no protocol that this server speaks has such a message")
}
