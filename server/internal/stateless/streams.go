package stateless

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

// Drain implements [dialect.Drainer].
func (d *stateless) Drain() { d.streams.end() }

// Close implements [dialect.Drainer].
func (d *stateless) Close() { d.Drain() }
