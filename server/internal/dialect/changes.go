package dialect

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Change is what subscribers hear about.
type Change uint8

// The changes there are.
const (
	ToolsChanged Change = iota
	PromptsChanged
	ResourcesChanged
	ResourceUpdated
)

// Event is one change; URI is set for ResourceUpdated.
type Event struct {
	Change Change
	URI    string
}

// Method is the notification that tells of the event.
func (e Event) Method() string {
	return [...]string{
		"notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated",
	}[e.Change]
}

// Limits of the resources that one subscriber hears about, together with the bytes of
// their URIs: they are held for as long as it listens.
const (
	MaxURIs     = 1000
	MaxURIBytes = 128 << 10
)

// Params are the notification's parameters, or nil.
func (e Event) Params() json.RawMessage {
	if e.Change != ResourceUpdated {
		return nil
	}
	return append(wire.AppendString([]byte(`{"uri":`), e.URI), '}')
}

// Interest is what a subscriber wants to hear about.
type Interest struct {
	events     map[Event]struct{}
	uris, size int // how many resources are among them, and the bytes of their URIs
}

// NewInterest returns the interest in lists and in resources with these URIs.
func NewInterest(tools, prompts, resources bool, uris []string) Interest {
	i := Interest{events: make(map[Event]struct{}, len(uris))}
	for change, wanted := range [...]bool{ToolsChanged: tools, PromptsChanged: prompts, ResourcesChanged: resources} {
		if wanted {
			i.events[Event{Change: Change(change)}] = struct{}{}
		}
	}
	for _, uri := range uris {
		i.Add(uri)
	}
	return i
}

// Add puts a URI in. It reports false if there are too many already.
func (i *Interest) Add(uri string) bool {
	e := Event{ResourceUpdated, uri}
	if i.covers(e) {
		return true
	}
	if i.uris >= MaxURIs || i.size+len(uri) > MaxURIBytes {
		return false
	}
	i.events[e] = struct{}{}
	i.uris++
	i.size += len(uri)
	return true
}

// SetURIs replaces the resources, and returns those that are new.
func (i *Interest) SetURIs(uris []string) (added []string) {
	before := i.events
	i.events, i.uris, i.size = make(map[Event]struct{}, len(uris)), 0, 0
	for e := range before {
		if e.Change != ResourceUpdated {
			i.events[e] = struct{}{}
		}
	}
	for _, uri := range uris {
		_, known := before[Event{ResourceUpdated, uri}]
		if i.Add(uri) && !known {
			added = append(added, uri)
		}
	}
	return added
}

// Remove takes a URI out.
func (i *Interest) Remove(uri string) {
	if e := (Event{ResourceUpdated, uri}); i.covers(e) {
		delete(i.events, e)
		i.uris--
		i.size -= len(uri)
	}
}

func (i *Interest) covers(e Event) bool {
	_, covered := i.events[e]
	return covered
}

// Hub passes events to subscribers. It keeps nothing for those who are away.
type Hub struct {
	mu     sync.Mutex
	subs   map[*Subscription]struct{}
	shared *shared // nil unless others publish here as well
}

// Subscription collects events until it is closed. An event says only that
// something has changed, so one that is waiting already need not wait twice: there
// is at most one for each list and for each URI. So what waits is bounded by what
// is subscribed to, and nothing is lost, however slowly the subscriber reads.
type Subscription struct {
	hub *Hub
	// Ready has an element when events wait.
	Ready chan struct{}

	mu      sync.Mutex
	want    Interest
	waiting []Event // in the order in which they came first
	waits   map[Event]struct{}
	told    uint64 // see Told
}

// Subscribe begins to collect events.
func (h *Hub) Subscribe(want Interest) *Subscription {
	s := &Subscription{hub: h, Ready: make(chan struct{}, 1), want: want, waits: make(map[Event]struct{})}
	if h.shared != nil {
		s.told = h.Position()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = make(map[*Subscription]struct{})
	}
	h.subs[s] = struct{}{}
	return s
}

// Change replaces what the subscriber wants. What waits and is not wanted any more
// is dropped.
func (s *Subscription) Change(f func(*Interest)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.want)
	s.waiting = slices.DeleteFunc(s.waiting, func(e Event) bool {
		unwanted := !s.want.covers(e)
		if unwanted {
			delete(s.waits, e)
		}
		return unwanted
	})
}

// add has an event wait for the subscriber, if it wants it.
func (s *Subscription) add(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waits := s.waits[e]; waits || !s.want.covers(e) {
		return
	}
	s.waits[e] = struct{}{}
	s.waiting = append(s.waiting, e)
	s.wake()
}

// addAll has everything wait that the subscriber wants.
func (s *Subscription) addAll() {
	s.mu.Lock()
	wanted := slices.Collect(maps.Keys(s.want.events))
	s.mu.Unlock()
	for _, e := range wanted {
		s.add(e)
	}
}

// Next takes the event that waits for the longest, or reports that there is none.
func (s *Subscription) Next() (e Event, ok bool) {
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

func (s *Subscription) wake() {
	select {
	case s.Ready <- struct{}{}:
	default: // it is awake
	}
}

// Close ends the subscription: no more events come.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs, s)
}

// Publish tells subscribers of an event: those here at once, and if the hub is shared those of
// other replicas as soon as may be. It waits for nothing.
func (h *Hub) Publish(e Event) {
	h.shared.tell(durable.Notice{Kind: e.Method(), Of: e.URI}) // first, so that subscribers who come now find it
	h.publish(e)
}

func (h *Hub) publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.add(e)
	}
}

// publishAll tells subscribers of everything they want, as anything may have changed.
func (h *Hub) publishAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.addAll()
	}
}
