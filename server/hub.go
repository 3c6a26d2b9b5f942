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
	uris                      map[string]struct{}
	size                      int // bytes of uris
}

func newInterest(tools, prompts, resources bool, uris []string) interest {
	i := interest{tools: tools, prompts: prompts, resources: resources, uris: make(map[string]struct{}, len(uris))}
	for _, uri := range uris {
		i.add(uri)
	}
	return i
}

func (i *interest) add(uri string) {
	if _, there := i.uris[uri]; !there {
		i.uris[uri] = struct{}{}
		i.size += len(uri)
	}
}

func (i *interest) remove(uri string) {
	if _, there := i.uris[uri]; there {
		delete(i.uris, uri)
		i.size -= len(uri)
	}
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
	_, there := i.uris[e.uri]
	return there
}

// hub passes events to subscribers. It keeps nothing for those who are away.
type hub struct {
	mu   sync.Mutex
	subs map[*subscription]struct{}
}

// subscription collects events until it is closed. An event says only that
// something has changed, so one that is waiting already need not wait twice: there
// is at most one for each list and for each URI. So what waits is bounded by what
// is subscribed to, and nothing is lost, however slowly the subscriber reads.
type subscription struct {
	hub *hub
	// ready has an element when events wait.
	ready chan struct{}

	mu      sync.Mutex
	want    interest
	waiting []event // in the order in which they came first
	waits   map[event]struct{}
}

func (h *hub) subscribe(want interest) *subscription {
	s := &subscription{hub: h, ready: make(chan struct{}, 1), want: want, waits: make(map[event]struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = make(map[*subscription]struct{})
	}
	h.subs[s] = struct{}{}
	return s
}

// change replaces what the subscriber wants. What waits and is not wanted any more
// is dropped.
func (s *subscription) change(f func(*interest)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.want)
	s.waiting = slices.DeleteFunc(s.waiting, func(e event) bool {
		unwanted := !s.want.covers(e)
		if unwanted {
			delete(s.waits, e)
		}
		return unwanted
	})
}

// add has an event wait for the subscriber, if it wants it.
func (s *subscription) add(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waits := s.waits[e]; waits || !s.want.covers(e) {
		return
	}
	s.waits[e] = struct{}{}
	s.waiting = append(s.waiting, e)
	s.wake()
}

// next takes the event that waits for the longest, or reports that there is none.
func (s *subscription) next() (e event, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return e, false
	}
	e, s.waiting = s.waiting[0], s.waiting[1:]
	delete(s.waits, e)
	if len(s.waiting) > 0 {
		s.wake()
	}
	return e, true
}

func (s *subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default: // it has been told
	}
}

// close ends the subscription: no more events come.
func (s *subscription) close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs, s)
}

func (h *hub) publish(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.add(e)
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
