package server

import "sync"

// maxStreams bounds the responses that stay open (subscriptions), as each holds
// a connection or a part of one.
const maxStreams = 1024

// streams are the responses that stay open until somebody ends them. When the
// server stops it ends them all: they would hold up the graceful stop.
type streams struct {
	mu      sync.Mutex
	open    int
	stopped bool
	ended   chan struct{}
}

// enter counts a stream in, unless there are too many. ended is closed when the
// stream is to say goodbye; leave must be called when it has.
func (s *streams) enter() (ended <-chan struct{}, leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= maxStreams {
		return nil, nil, false
	}
	s.open++
	return s.channel(), sync.OnceFunc(s.leave), true
}

func (s *streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
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
