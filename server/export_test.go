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

// lot is a dialect that parks streams.
type lot interface {
	Parked() int
	Tend(now time.Time)
	ParkAfter(wait time.Duration)
}

// SetParkAfter has streams be parked sooner. There are no clients yet.
func SetParkAfter(s *Server, wait time.Duration) {
	for _, d := range s.sessions {
		if l, ok := d.(lot); ok {
			l.ParkAfter(wait)
		}
	}
}

// Parked returns how many streams are parked.
func Parked(s *Server) (n int) {
	for _, d := range s.sessions {
		if l, ok := d.(lot); ok {
			n += l.Parked()
		}
	}
	return n
}

// TendParked looks after the parked streams as if it were that time.
func TendParked(s *Server, now time.Time) {
	for _, d := range s.sessions {
		if l, ok := d.(lot); ok {
			l.Tend(now)
		}
	}
}
