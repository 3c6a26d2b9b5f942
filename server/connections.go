package server

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// connections counts those that are open, and the requests on them that began before the server was
// asked to stop.
type connections struct{ open, early atomic.Int64 }

func (c *connections) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.open.Add(1)
	case http.StateClosed:
		c.open.Add(-1)
	}
}

// counting counts the requests that h serves.
func (c *connections) counting(h http.Handler, stopping *atomic.Bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !stopping.Load() {
			c.early.Add(1)
			defer c.early.Add(-1)
		}
		h.ServeHTTP(w, r)
	})
}

// wait waits until none is open, but not for long: for a while after the last early request. Its
// owner has not been asked to close the connection, and may just be sending the next one.
func (c *connections) wait(while, most time.Duration) {
	begun := time.Now()
	for end := begun.Add(while); c.open.Load() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
		if now := time.Now(); c.early.Load() > 0 && now.Sub(begun) < most {
			end = now.Add(while)
		}
	}
}
