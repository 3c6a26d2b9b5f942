package server

import "time"

// SetKeepAlive makes idle event streams show sooner that they are alive.
func SetKeepAlive(s *Server, every time.Duration) { s.stateless.keepAlive = every }
