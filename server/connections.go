package server

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// connections counts those that are open.
type connections struct{ open atomic.Int64 }

func (c *connections) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		c.open.Add(-1)
	}
}

// wait waits until none is open, but not for long.
func (c *connections) wait(most time.Duration) {
	for end := time.Now().Add(most); c.open.Load() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}
