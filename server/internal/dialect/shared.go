package dialect

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// With a ledger, the hubs of all replicas are one: what one publishes, the others publish as well. They
// tell one another by the notices of the durable core. To publish waits for nothing: subscribers here hear
// at once, those of other replicas as soon as the ledger can be written.

const (
	// tellEvery is how often a replica writes notices at most; what comes meanwhile waits.
	tellEvery = 50 * time.Millisecond
	// tellAgain is how soon the ledger is tried again when it has failed.
	tellAgain = time.Second
	// tellTime is how long a write may take, lastTime the one when the server stops.
	tellTime = 3 * time.Second
	lastTime = time.Second
	// maxHeard is of how many changes it is known when they were last.
	maxHeard = 1024
	// maxWaiting is how many notices may wait to be written, and maxWaitingBytes how long they may be. Of more, all
	// that is said is that anything may have changed. maxCancelled is how many of them may be
	// cancellations.
	maxWaiting      = 512
	maxWaitingBytes = 64 << 10
	maxCancelled    = 64
)

// Kinds of notices, besides the changes, whose kind is their method.
const (
	aboutSession   = "session"   // its document has changed
	aboutCancelled = "cancelled" // a client has cancelled a request that the replica does not know
)

// SessionID is the random part of a session's id.
type SessionID = [16]byte

// GivenUp is a request of a session that its client has cancelled. Request is short, and names it to those
// who know it.
type GivenUp struct {
	Session SessionID
	Request string
}

// Share has the hub tell other replicas, and hear of them, while [Hub.Work] runs. It comes
// before all other use of the hub.
func (h *Hub) Share(core *durable.Core, log *slog.Logger) {
	h.core, h.log, h.by = core, log, crand.Text()[:13]
	h.wake, h.heard = make(chan struct{}, 1), make(map[Event]uint64)
}

// By names this process among those that share the hub; empty if it shares nothing.
func (h *Hub) By() string { return h.by }

// Touch tells the other replicas that the document of a session has changed.
func (h *Hub) Touch(id SessionID) {
	h.tell(durable.Notice{By: h.by, Kind: aboutSession, Of: sessionText(id)})
}

// Cancel tells the other replicas that a request is cancelled. When there are too many, it does not.
func (h *Hub) Cancel(c GivenUp) {
	h.tell(durable.Notice{By: h.by, Kind: aboutCancelled, Of: sessionText(c.Session) + "." + c.Request})
}

func sessionText(id SessionID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// Position is the number of the notice up to which all have been published here; 0 without a ledger.
func (h *Hub) Position() uint64 {
	h.sharing.Lock() // what is being published counts as soon as all of it has been
	defer h.sharing.Unlock()
	return h.delivered
}

// notice is what this process writes of a change.
func (h *Hub) notice(e Event) durable.Notice {
	return durable.Notice{By: h.by, Kind: e.Method, Of: e.URI}
}

// tell has a notice wait to be written, unless it does so already. If there is no room for it, all that
// is left to say is that anything may have changed.
func (h *Hub) tell(n durable.Notice) {
	if h.core == nil || !utf8.ValidString(n.Of) { // no client can have subscribed to such a URI
		return
	}
	h.sharing.Lock()
	defer h.sharing.Unlock()
	all := h.notice(Event{Method: anything})
	size, cancelled := len(n.Of), 0
	for _, other := range h.waiting {
		if other == n || other == all {
			return
		}
		size += len(other.Of)
		if other.Kind == aboutCancelled {
			cancelled++
		}
	}
	if n.Kind == aboutCancelled && cancelled >= maxCancelled {
		return
	}
	if len(h.waiting) >= maxWaiting || size > maxWaitingBytes {
		h.waiting, n = nil, all
	}
	h.waiting = append(h.waiting, n)
	signal(h.wake)
}

// Work shares the hub until ctx ends, or the ledger is closed. What waits then is written if
// that is quickly done.
func (h *Hub) Work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var hearing sync.WaitGroup
	hearing.Go(func() { cancel(h.core.Notices(ctx, h.hear, h.report)) })
	for ctx.Err() == nil {
		select {
		case <-h.wake:
		case <-ctx.Done():
			continue
		}
		err, wait := h.write(ctx), tellEvery
		if h.report(ctx, err); err != nil {
			wait = tellAgain
			signal(h.wake)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	hearing.Wait()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer stop()
	_ = h.write(last) // other replicas hear of it later, or never if the ledger is away as well
	return context.Cause(ctx)
}

// write writes what waits, or what could not be written the last time.
func (h *Hub) write(ctx context.Context) error {
	h.sharing.Lock()
	if len(h.flying) == 0 {
		h.flying, h.waiting = h.waiting, nil
	}
	list := slices.Clone(h.flying) // which gets numbers
	h.sharing.Unlock()
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	if err := h.core.Tell(ctx, list); err != nil {
		return err
	}
	h.wrote(list)
	return nil
}

// wrote notes what was written.
func (h *Hub) wrote(list []durable.Notice) {
	h.sharing.Lock()
	defer h.sharing.Unlock()
	h.flying = nil
	for _, n := range list {
		h.note(n)
	}
	if len(h.waiting) > 0 {
		signal(h.wake)
	}
}

// note notes when a change was, if that is what a notice is about.
func (h *Hub) note(n durable.Notice) (e Event, isChange bool) {
	if n.Kind == aboutSession || n.Kind == aboutCancelled {
		return e, false
	}
	e = Event{n.Kind, n.Of}
	h.heard[e] = max(h.heard[e], n.N)
	if len(h.heard) > maxHeard {
		last := slices.Max(slices.Collect(maps.Values(h.heard)))
		clear(h.heard)
		h.heard[Event{Method: anything}] = last
	}
	return e, true
}

// report logs when the ledger fails, and when it works again.
func (h *Hub) report(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, ledger.ErrClosed) {
		return
	}
	h.sharing.Lock()
	was := h.failing
	h.failing = err != nil
	h.sharing.Unlock()
	switch {
	case err != nil && !was:
		h.log.WarnContext(ctx, "other replicas do not hear of changes at present, nor does this one", "error", err)
	case err == nil && was:
		h.log.InfoContext(ctx, "replicas hear of changes again")
	}
}

// hear hears new notices, up to a number. lost says that there were more.
func (h *Hub) hear(list []durable.Notice, newest uint64, lost bool) {
	sessions, all, cancelled := h.pass(list, newest, lost)
	// Without a lock: what is called may hold what a subscriber waits for.
	if h.OnTouched != nil && (all || len(sessions) > 0) {
		h.OnTouched(sessions)
	}
	if h.OnCancelled != nil && len(cancelled) > 0 {
		h.OnCancelled(cancelled)
	}
}

// pass publishes notices to subscribers, and returns what else they say: sessions that others have changed,
// nil if any may have been, and requests that were cancelled elsewhere.
func (h *Hub) pass(list []durable.Notice, newest uint64, lost bool) (sessions []SessionID, all bool, cancelled []GivenUp) {
	h.sharing.Lock()
	defer h.sharing.Unlock()
	first := !h.ready // of which cancellations are of long ago
	if all = lost; lost {
		maps.DeleteFunc(h.heard, func(_ Event, n uint64) bool { return n <= newest })
		before := newest
		if len(list) > 0 {
			before = list[0].N - 1
		}
		h.note(durable.Notice{N: before, Kind: anything})
	}
	for _, n := range list {
		e, isChange := h.note(n)
		if n.By == h.by {
			continue
		}
		text, request, _ := strings.Cut(n.Of, ".")
		id, err := base64.RawURLEncoding.DecodeString(text)
		isSession := err == nil && len(id) == len(SessionID{})
		switch {
		case isChange && e.Method == anything:
			all = true
		case isChange && !lost:
			h.publish(e)
		case n.Kind == aboutSession && isSession:
			sessions = append(sessions, SessionID(id))
		case n.Kind == aboutCancelled && isSession && !first:
			cancelled = append(cancelled, GivenUp{SessionID(id), request})
		}
	}
	if all {
		sessions = nil
		h.publish(Event{Method: anything})
	}
	h.delivered, h.ready = newest, true
	return sessions, all, cancelled
}

// missed returns which of these changes there were after a notice, the oldest first: all if that notice
// is not known any more, or of another ledger. Before the first notices have been read there are none: then their
// subscribers hear of all of them.
func (h *Hub) missed(wanted []Event, from uint64) []Event {
	h.sharing.Lock()
	defer h.sharing.Unlock()
	switch {
	case h.heard == nil: // it is not shared, and nothing is known of what there was
		return wanted
	case !h.ready:
		return nil
	}
	since := func(e Event) bool {
		return h.heard[e] > from || slices.Contains(h.flying, h.notice(e)) || slices.Contains(h.waiting, h.notice(e))
	}
	if from <= h.delivered && !since(Event{Method: anything}) {
		wanted = slices.DeleteFunc(wanted, func(e Event) bool { return !since(e) })
	}
	slices.SortFunc(wanted, func(a, b Event) int { return cmp.Compare(h.heard[a], h.heard[b]) })
	return wanted
}

// CatchUp has the subscriber hear of the notices after a number, as far as it wants to.
func (s *Subscription) CatchUp(from uint64) {
	s.mu.Lock()
	wanted := slices.Collect(maps.Keys(s.wanted))
	s.mu.Unlock()
	for _, e := range s.hub.missed(wanted, from) {
		s.add(e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		s.delivered = from
	}
}

// CatchUpOn is CatchUp for one resource.
func (s *Subscription) CatchUpOn(uri string, from uint64) {
	for _, e := range s.hub.missed([]Event{{ResourceUpdated, uri}}, from) {
		s.add(e)
	}
}

// Delivered is the number of the notice up to which the subscriber has taken all that it wants; zero
// if that is not known.
func (s *Subscription) Delivered() uint64 {
	n := s.hub.Position() // before it is found that nothing waits
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.delivered = n
	}
	return s.delivered
}
