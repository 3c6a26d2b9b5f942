package server

import (
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// SetKeepAlive makes idle event streams show sooner that they are alive.
func SetKeepAlive(s *Server, every time.Duration) { s.keepAlive = every }

// NewWith returns a server that speaks one more dialect.
func NewWith(o Options, d dialect.New) (*Server, error) {
	return newServer(o, append([]registration{{new: d}}, registered...))
}
