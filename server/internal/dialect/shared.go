package dialect

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
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
	// shortPause and longPause are how soon the ledger is tried again when it has failed.
	shortPause, longPause = 100 * time.Millisecond, 5 * time.Second
	// tellTime is how long a write may take, lastTime the one when the server stops.
	tellTime = 3 * time.Second
	lastTime = time.Second
	// maxTold is how many notices may wait to be written, and maxToldBytes how long they may be. Of more, all
	// that is said is that anything may have changed. maxCancelled is how many of them may be
	// cancellations.
	maxTold      = 512
	maxToldBytes = 64 << 10
	maxCancelled = 64
	// maxHeard is how many notices are kept in memory, for those who have missed some.
	maxHeard = 1024
)

// Kinds of notices, besides the changes, whose kind is their method.
const (
	aboutSession   = "session"   // its document has changed
	aboutCancelled = "cancelled" // a client has cancelled a request that the replica does not know
	aboutAll       = "all"       // anything may have changed
)

// shared is the part of a hub that replicas have in common.
type shared struct {
	core *durable.Core
	log  *slog.Logger
	hub  *Hub
	by   string // this process, in notices
	wake chan struct{}
	hear sync.RWMutex      // is held while notices are published, so that they are in order
	on   func([]SessionID) // is called with sessions that others have changed; nil for all
	off  func([]GivenUp)   // is called with requests of which others were told that they are cancelled

	mu sync.Mutex
	// heard are the newest notices: all after floor, up to told. ready says that they were read.
	heard       []durable.Notice
	floor, told uint64
	ready       bool
	// flying are being written, and waiting are to be, each once. sent are or were flying, and have not been heard
	// here yet.
	sent, flying, waiting []durable.Notice
	size                  int // bytes of waiting
	failing               bool
}

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
	h.shared = &shared{core: core, log: log, hub: h, by: crand.Text()[:13], wake: make(chan struct{}, 1)}
}

// OnTouched has f be called with the sessions of which another replica has changed the document, or
// with nil if any may have been. It must not wait.
func (h *Hub) OnTouched(f func([]SessionID)) {
	if h.shared != nil {
		h.shared.on = f
	}
}

// OnCancelled has f be called with requests whose cancellation has reached another replica, which does
// not know them. It must not wait.
func (h *Hub) OnCancelled(f func([]GivenUp)) {
	if h.shared != nil {
		h.shared.off = f
	}
}

// Cancel tells the other replicas that a request is cancelled. When there are too many, it does not.
func (h *Hub) Cancel(c GivenUp) {
	h.shared.tell(durable.Notice{Kind: aboutCancelled, Of: sessionText(c.Session) + "." + c.Request})
}

// By names this process among those that share the hub; empty if it shares nothing.
func (h *Hub) By() string {
	if h.shared == nil {
		return ""
	}
	return h.shared.by
}

// Touch tells the other replicas that the document of a session has changed.
func (h *Hub) Touch(id SessionID) {
	h.shared.tell(durable.Notice{Kind: aboutSession, Of: sessionText(id)})
}

// Position is the number of the notice up to which all have been published here.
func (h *Hub) Position() (n uint64) {
	if s := h.shared; s != nil {
		s.hear.RLock() // what is being published counts as soon as all of it has been
		defer s.hear.RUnlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		n = s.told
	}
	return n
}

// tell has a notice wait to be written, unless it does so already.
func (s *shared) tell(n durable.Notice) {
	if s == nil || !utf8.ValidString(n.Of) { // no client can have subscribed to such a URI
		return
	}
	n.By = s.by
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case slices.Contains(s.waiting, n) || len(s.waiting) == 1 && s.waiting[0].Kind == aboutAll:
		return
	case n.Kind == aboutCancelled && count(s.waiting, aboutCancelled) >= maxCancelled:
		return
	case len(s.waiting) >= maxTold || s.size+len(n.Of) > maxToldBytes:
		s.waiting = []durable.Notice{{By: s.by, Kind: aboutAll}}
	default:
		s.waiting = append(s.waiting, n)
		s.size += len(n.Of)
	}
	s.hurry()
}

func count(list []durable.Notice, kind string) (n int) {
	for i := range list {
		if list[i].Kind == kind {
			n++
		}
	}
	return n
}

// Work shares the hub until ctx ends, or the ledger is closed. What waits then is written if
// that is quickly done.
func (h *Hub) Work(ctx context.Context) error {
	s := h.shared
	ctx, cancel := context.WithCancelCause(ctx)
	var hearing sync.WaitGroup
	hearing.Go(func() { cancel(s.core.Notices(ctx, s.publish, s.report)) })
	for pause := tellEvery; ctx.Err() == nil; {
		select {
		case <-s.wake:
		case <-ctx.Done():
			continue
		}
		err := s.write(ctx)
		s.report(ctx, err)
		wait := tellEvery
		if err != nil {
			wait, pause = pause, min(max(2*pause, shortPause), longPause)
			s.hurry()
		} else {
			pause = tellEvery
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	hearing.Wait()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer stop()
	_ = s.write(last) // other replicas hear of it later, or never if the ledger is away as well
	return context.Cause(ctx)
}

// hurry has what waits be written soon.
func (s *shared) hurry() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write writes what waits.
func (s *shared) write(ctx context.Context) error {
	s.mu.Lock()
	if len(s.flying) == 0 { // else they are those that could not be written
		s.flying, s.waiting, s.size = s.waiting, nil, 0
		if s.sent = append(s.sent, s.flying...); len(s.sent) > maxHeard {
			s.sent = []durable.Notice{{By: s.by, Kind: aboutAll}}
		}
	}
	flying := s.flying
	s.mu.Unlock()
	if len(flying) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	if err := s.core.Tell(ctx, flying); err != nil {
		return err
	}
	s.mu.Lock()
	s.flying = nil
	more := len(s.waiting) > 0
	s.mu.Unlock()
	if more {
		s.hurry()
	}
	return nil
}

// report logs when the ledger fails, and when it works again.
func (s *shared) report(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, ledger.ErrClosed) {
		return
	}
	s.mu.Lock()
	was := s.failing
	s.failing = err != nil
	s.mu.Unlock()
	switch {
	case err != nil && !was:
		s.log.WarnContext(ctx, "other replicas do not hear of changes at present, nor does this one", "error", err)
	case err == nil && was:
		s.log.InfoContext(ctx, "replicas hear of changes again")
	}
}

// publish publishes new notices, up to a number. lost says that there were more.
func (s *shared) publish(list []durable.Notice, told uint64, lost bool) {
	sessions, all, cancelled := s.hearNotices(list, told, lost)
	// Without a lock: what is called may hold what a subscriber waits for.
	if s.on != nil && (all || len(sessions) > 0) {
		s.on(sessions)
	}
	if s.off != nil && len(cancelled) > 0 {
		s.off(cancelled)
	}
}

// hearNotices publishes notices to subscribers, and returns what else they say: sessions that others have
// changed, nil if any may have been, and requests that were cancelled elsewhere.
func (s *shared) hearNotices(list []durable.Notice, told uint64, lost bool) (sessions []SessionID, all bool, cancelled []GivenUp) {
	s.hear.Lock()
	defer s.hear.Unlock()
	s.mu.Lock()
	first := !s.ready // of which cancellations are of long ago
	s.mu.Unlock()
	all = lost
	for _, n := range list {
		if n.By == s.by {
			continue
		}
		text, request, _ := strings.Cut(n.Of, ".")
		id, isSession := readSession(text)
		switch e, isChange := eventOf(n); {
		case isChange && !lost:
			s.hub.publish(e)
		case n.Kind == aboutAll:
			all = true
		case n.Kind == aboutSession && isSession:
			sessions = append(sessions, id)
		case n.Kind == aboutCancelled && isSession && !first:
			cancelled = append(cancelled, GivenUp{id, request})
		}
	}
	if all {
		sessions = nil
		s.hub.publishAll()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
	if lost {
		s.heard, s.floor = nil, told
		if len(list) > 0 {
			s.floor = list[0].N - 1
		}
	}
	s.sent = slices.DeleteFunc(s.sent, func(n durable.Notice) bool {
		return lost || n.Kind == aboutAll || slices.ContainsFunc(list, func(o durable.Notice) bool { return o.By == s.by && o.Kind == n.Kind && o.Of == n.Of })
	})
	s.heard = append(s.heard, list...)
	if n := len(s.heard) - maxHeard; n > 0 {
		s.floor = s.heard[n-1].N
		s.heard = slices.Delete(s.heard, 0, n)
	}
	s.told = told
	return sessions, all, cancelled
}

// eventOf is the change that a notice is about, if it is about one.
func eventOf(n durable.Notice) (Event, bool) {
	for c := ToolsChanged; c <= ResourceUpdated; c++ {
		if e := (Event{c, n.Of}); e.Method() == n.Kind {
			return e, true
		}
	}
	return Event{}, false
}

func sessionText(id SessionID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func readSession(text string) (id SessionID, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	return SessionID(raw), true
}

// CatchUp has the subscriber hear of the notices after a number, as far as it wants to. If they are
// not known any more, the subscriber hears of everything it wants. Before the first notices have been read
// it does nothing: then their subscribers hear of all of them.
func (s *Subscription) CatchUp(from uint64) {
	s.catchUp(from, func(e Event) { s.add(e) }, s.addAll)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		s.told = from
	}
}

// CatchUpOn is CatchUp for one resource.
func (s *Subscription) CatchUpOn(uri string, from uint64) {
	this := Event{ResourceUpdated, uri}
	s.catchUp(from, func(e Event) {
		if e == this {
			s.add(e)
		}
	}, func() { s.add(this) })
}

func (s *Subscription) catchUp(from uint64, add func(Event), all func()) {
	shared := s.hub.shared
	if shared == nil {
		return
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.ready {
		return
	}
	if from < shared.floor || from > shared.told { // or of another ledger
		all()
		return
	}
	for _, list := range [][]durable.Notice{shared.heard, shared.sent, shared.waiting} {
		for _, n := range list {
			if n.N != 0 && n.N <= from {
				continue
			}
			if e, isChange := eventOf(n); isChange {
				add(e)
			} else if n.Kind == aboutAll {
				all()
			}
		}
	}
}

// Told is the number of the notice up to which the subscriber has taken all that it wants; zero
// if that is not known.
func (s *Subscription) Told() uint64 {
	n := s.hub.Position() // before it is found that nothing waits
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.told = n
	}
	return s.told
}
