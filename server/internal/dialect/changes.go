package dialect

import (
	"encoding/json"
	"log/slog"
	"slices"
	"sync"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Event is a change that subscribers hear about, named by the notification that says so.
type Event struct {
	Method string
	URI    string // of ResourceUpdated
}

// The notifications.
const (
	ToolsChanged     = "notifications/tools/list_changed"
	PromptsChanged   = "notifications/prompts/list_changed"
	ResourcesChanged = "notifications/resources/list_changed"
	ResourceUpdated  = "notifications/resources/updated"
	// anything may have changed: it stands for all that a subscriber wants.
	anything = "all"
)

// Limits of the resources that one subscriber hears about, together with the bytes of
// their URIs: they are held for as long as it listens.
const (
	MaxURIs     = 1000
	MaxURIBytes = 128 << 10
)

// Params are the notification's parameters, or nil.
func (e Event) Params() json.RawMessage {
	if e.Method != ResourceUpdated {
		return nil
	}
	return append(wire.AppendString([]byte(`{"uri":`), e.URI), '}')
}

// Hub passes events to subscribers, and with a ledger to those of other replicas (shared.go). The zero
// value shares nothing.
type Hub struct {
	// OnTouched is called with the sessions of which another replica has changed the document, or
	// with nil if any may have been; OnCancelled with requests whose cancellation has reached another
	// replica, which does not know them. Neither may wait. They are set before all other use of the hub.
	OnTouched   func([]SessionID)
	OnCancelled func([]GivenUp)

	mu   sync.Mutex
	subs map[*Subscription]struct{}

	core *durable.Core // nil if nothing is shared
	log  *slog.Logger
	by   string        // this process, in notices
	wake chan struct{} // has an element when there is something to write

	sharing sync.Mutex // guards what follows, and is held while notices are published, so that they are in order
	// delivered is the number of the newest notice that was read, and ready says that there was a reading.
	delivered uint64
	ready     bool
	// heard has the number of the newest notice of each change, read or written here; what it has not is as anything.
	heard map[Event]uint64
	// waiting are to be written, each once, and flying are being written.
	waiting, flying []durable.Notice
	failing         bool
}

// Subscription collects events until it is closed. An event says only that
// something has changed, so one that is waiting already need not wait twice: there
// is at most one for each list and for each URI. So what waits is bounded by what
// is subscribed to, and nothing is lost, however slowly the subscriber reads.
type Subscription struct {
	hub *Hub
	// Ready has an element when events wait.
	Ready chan struct{}

	mu         sync.Mutex
	wanted     map[Event]bool // whether it waits
	uris, size int            // how many resources are wanted, and the bytes of their URIs
	waiting    []Event        // in the order in which they came first
	delivered  uint64         // see Delivered
}

// Subscribe begins to collect events of lists, and of resources with these URIs.
func (h *Hub) Subscribe(tools, prompts, resources bool, uris []string) *Subscription {
	s := &Subscription{hub: h, Ready: make(chan struct{}, 1), wanted: make(map[Event]bool, len(uris)), delivered: h.Position()}
	for method, wanted := range map[string]bool{ToolsChanged: tools, PromptsChanged: prompts, ResourcesChanged: resources} {
		if wanted {
			s.wanted[Event{Method: method}] = false
		}
	}
	s.SetURIs(uris)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = make(map[*Subscription]struct{})
	}
	h.subs[s] = struct{}{}
	return s
}

// SetURIs replaces the resources that the subscriber hears of, as far as there is room, and returns those that are new.
func (s *Subscription) SetURIs(uris []string) (added []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := make(map[string]bool, len(uris))
	for _, uri := range uris {
		listed[uri] = true
	}
	for e, waits := range s.wanted {
		if e.Method != ResourceUpdated || listed[e.URI] {
			continue
		}
		delete(s.wanted, e)
		s.uris--
		s.size -= len(e.URI)
		if waits {
			s.waiting = slices.DeleteFunc(s.waiting, func(other Event) bool { return other == e })
		}
	}
	for _, uri := range uris {
		e := Event{ResourceUpdated, uri}
		if _, wanted := s.wanted[e]; wanted || s.uris >= MaxURIs || s.size+len(uri) > MaxURIBytes {
			continue
		}
		s.wanted[e] = false
		s.uris++
		s.size += len(uri)
		added = append(added, uri)
	}
	return added
}

// add has an event wait for the subscriber, if it wants it.
func (s *Subscription) add(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	put := func(e Event) {
		if waits, wanted := s.wanted[e]; wanted && !waits {
			s.wanted[e] = true
			s.waiting = append(s.waiting, e)
			signal(s.Ready)
		}
	}
	if e.Method != anything {
		put(e)
		return
	}
	for e := range s.wanted {
		put(e)
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
	s.wanted[e] = false
	if len(s.waiting) > 0 {
		signal(s.Ready)
	}
	return e, true
}

// signal puts an element into a channel that has room for one, unless there is one.
func signal(ready chan<- struct{}) {
	select {
	case ready <- struct{}{}:
	default:
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
	h.tell(h.notice(e)) // first, so that subscribers who come now find it
	h.publish(e)
}

func (h *Hub) publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		s.add(e)
	}
}
