package server

import (
	"slices"
	"sync"
)

// change is what subscribers hear about.
type change uint8

const (
	toolsChanged change = iota
	promptsChanged
	resourcesChanged
	resourceUpdated
)

// event is one change; uri is set for resourceUpdated.
type event struct {
	change change
	uri    string
}

// method is the notification that tells of the event.
func (e event) method() string {
	return [...]string{
		"notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated",
	}[e.change]
}

// interest is what a subscriber wants to hear about.
type interest struct {
	tools, prompts, resources bool
	uris                      []string
}

func (i *interest) covers(e event) bool {
	switch e.change {
	case toolsChanged:
		return i.tools
	case promptsChanged:
		return i.prompts
	case resourcesChanged:
		return i.resources
	}
	return slices.Contains(i.uris, e.uri)
}

// hub passes events to subscribers. It keeps nothing for those who are away.
type hub struct {
	mu   sync.Mutex
	subs map[*subscription]struct{}
}

// subscription receives events until it is closed.
type subscription struct {
	hub    *hub
	events chan event

	mu   sync.Mutex
	want interest
}

// maxQueued bounds what waits for one subscriber. Events say only that something
// has changed, so one that finds the queue full may be dropped: the subscriber
// has not even read those before it.
const maxQueued = 64

func (h *hub) subscribe(want interest) *subscription {
	s := &subscription{hub: h, events: make(chan event, maxQueued), want: want}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = make(map[*subscription]struct{})
	}
	h.subs[s] = struct{}{}
	return s
}

// change replaces what the subscriber wants.
func (s *subscription) change(f func(*interest)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.want)
}

// close ends the subscription. Its channel is not closed, only never written
// to again.
func (s *subscription) close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs, s)
}

func (h *hub) publish(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.mu.Lock()
		wanted := s.want.covers(e)
		s.mu.Unlock()
		if !wanted {
			continue
		}
		select {
		case s.events <- e:
		default:
		}
	}
}

// ToolsChanged tells subscribed clients that the list of tools is to be read
// again.
func (s *Server) ToolsChanged() { s.hub.publish(event{change: toolsChanged}) }

// PromptsChanged tells subscribed clients that the list of prompts is to be read
// again.
func (s *Server) PromptsChanged() { s.hub.publish(event{change: promptsChanged}) }

// ResourcesChanged tells subscribed clients that the list of resources is to be
// read again.
func (s *Server) ResourcesChanged() { s.hub.publish(event{change: resourcesChanged}) }

// ResourceUpdated tells clients that subscribed to the URI that the resource is
// to be read again.
func (s *Server) ResourceUpdated(uri string) { s.hub.publish(event{resourceUpdated, uri}) }
