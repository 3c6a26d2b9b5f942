package server

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/elsewhere"
)

// SetKeepAlive makes idle event streams show sooner that they are alive.
func SetKeepAlive(s *Server, every time.Duration) { s.keepAlive = every }

// SetEventTimeout lets clients take less time to accept an event.
func SetEventTimeout(s *Server, d time.Duration) { s.eventTimeout = d }

// NewWith returns a server that speaks one more dialect.
func NewWith(o Options, d dialect.New) (*Server, error) {
	o.dialects = append([]registration{{new: d}}, registered...)
	return New(o)
}

// SetPages gives a server pages.
func SetPages(s *Server, p dialect.Pages) { s.host.Questions.Pages = p }

// SetApps has a server say that it has a form for the windows of hosts.
func SetApps(s *Server) { s.host.Questions.Apps = true }

// Present notes that such a form shows a call.
func Present(ctx context.Context, s *Server, principal, task string) error {
	_, err := elsewhere.New(s.host).Present(ctx, principal, task)
	return err
}
