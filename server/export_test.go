package server

import (
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
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
