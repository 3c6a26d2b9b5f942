package server

import (
	"errors"
	"sync"
)

// streams are the responses that stay open until somebody ends them (subscriptions).
// Each holds a connection or a part of one, so there are limits: one for all, and one
// for each owner. When the server stops it ends them all: they would hold up the
// graceful stop.
type streams struct {
	most, mostOwned int

	mu      sync.Mutex
	open    int
	owned   map[string]int
	stopped bool
	ended   chan struct{}
}

var (
	errManyStreams = errors.New("too many subscriptions are open; try again later")
	errOwnStreams  = errors.New("this caller has too many subscriptions open; end some")
)

// enter counts a stream in, unless there are too many. ended is closed when the
// stream is to say goodbye; leave must be called when it has.
func (s *streams) enter(owner string) (ended <-chan struct{}, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case owner != "" && s.owned[owner] >= s.mostOwned:
		return nil, nil, errOwnStreams
	case s.open >= s.most:
		return nil, nil, errManyStreams
	}
	s.open++
	if owner != "" {
		if s.owned == nil {
			s.owned = make(map[string]int)
		}
		s.owned[owner]++
	}
	return s.channel(), sync.OnceFunc(func() { s.leave(owner) }), nil
}

func (s *streams) leave(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if owner == "" {
		return
	}
	if s.owned[owner]--; s.owned[owner] == 0 {
		delete(s.owned, owner)
	}
}

func (s *streams) channel() chan struct{} {
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.ended
}

// end ends the streams that are open, and those still to come at once.
func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.stopped = true
		close(s.channel())
	}
}

// CloseStreams ends the subscriptions of all clients, now and from now on, each
// with a proper goodbye, and the wait for answers of clients that have sessions or
// come through [Server.Handle]. [Server.Serve] does so when it stops; an
// http.Server of your own does so with RegisterOnShutdown(s.CloseStreams), as its
// Shutdown waits for streams that never end by themselves.
func (s *Server) CloseStreams() {
	s.streams.end()
	s.handshake.stop()
	s.guests.stop()
}

// Close ends all that clients have open, with their sessions and the turns under
// way in these, and waits a few seconds for what they undo. [Server.Serve] does so
// in the end.
func (s *Server) Close() {
	s.CloseStreams()
	s.handshake.close()
}
