package dialect

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// With a ledger, the hubs of all replicas are one: what one publishes, the others publish as
// well. They tell each other by one record, which each watches. Whoever publishes waits for
// nothing: its own subscribers hear at once, the others as soon as the ledger can be written.

const (
	// tellEvery is how often a replica writes news at most; what comes meanwhile waits.
	tellEvery = 50 * time.Millisecond
	// How soon the ledger is tried again when it has failed.
	shortPause, longPause = 100 * time.Millisecond, 5 * time.Second
	// tellTime is how long a write may take, lastTime the one when the server stops.
	tellTime = 3 * time.Second
	lastTime = time.Second
	// keysEvery is how often to look for another keyset, under which news have another name.
	// Replicas have a new key long before anybody uses it.
	keysEvery = 5 * time.Second
)

// shared is the part of a hub that replicas have in common. Its zero value shares nothing.
type shared struct {
	book *records.Book
	log  *slog.Logger
	by   string            // this process, in the news
	wake chan struct{}     // has an element when there is something to tell
	hear sync.RWMutex      // is held while news are published, so that they are in order
	on   func([]SessionID) // is called with sessions that others have changed; nil for all
	off  func([]GivenUp)   // is called with what others were told that is cancelled
	hub  *Hub

	mu    sync.Mutex
	known map[string]*records.News // by name
	name  string                   // of those that are written
	told  records.Position         // in those: all up to it has been published
	// flying are being written, and waiting are to be, each once.
	flying, waiting records.Telling
	waits           map[records.NewsItem]struct{}
	size            int // bytes of waiting
	failing         bool
}

// SessionID is the random part of a session's id.
type SessionID = [16]byte

// Share has the hub tell other replicas, and hear of them, while [Hub.Work] runs. It comes
// before all other use of the hub.
func (h *Hub) Share(book *records.Book, log *slog.Logger) {
	h.shared = &shared{
		book: book, log: log, by: crand.Text()[:13], wake: make(chan struct{}, 1), hub: h,
		known: make(map[string]*records.News), waits: make(map[records.NewsItem]struct{}),
	}
}

// OnTouched has f be called with the sessions of which another replica has changed the record, or
// with nil if any may have been. It must not wait.
func (h *Hub) OnTouched(f func([]SessionID)) {
	if h.shared != nil {
		h.shared.on = f
	}
}

// GivenUp is a request of a session that its client has cancelled. Request is short, and says
// which it is to whoever knows it.
type GivenUp struct {
	Session SessionID
	Request string
}

// OnCancelled has f be called with requests whose cancellation another replica was told, which does
// not know them. It must not wait.
func (h *Hub) OnCancelled(f func([]GivenUp)) {
	if h.shared != nil {
		h.shared.off = f
	}
}

// Cancel tells the other replicas that a request is cancelled. When there are too many, it does not.
func (h *Hub) Cancel(c GivenUp) {
	s := h.shared
	if s == nil {
		return
	}
	item := records.NewsItem{Of: sessionText(c.Session) + "." + c.Request}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting.Cancelled) < records.MaxCancelled && !slices.Contains(s.waiting.Cancelled, item) {
		s.waiting.Cancelled = append(s.waiting.Cancelled, item)
		s.hurry()
	}
}

// By names this process among those that share the hub; empty if it shares nothing.
func (h *Hub) By() string {
	if h.shared == nil {
		return ""
	}
	return h.shared.by
}

// Touch tells the other replicas that the record of a session has changed.
func (h *Hub) Touch(id SessionID) {
	if s := h.shared; s != nil {
		s.add(&s.waiting.Sessions, &s.waiting.SessionsLost, records.NewsItem{Of: sessionText(id)})
	}
}

// Position is up to where all news have been published here.
func (h *Hub) Position() (p records.Position) {
	if s := h.shared; s != nil {
		s.hear.RLock() // what is being published counts as soon as all of it has been
		defer s.hear.RUnlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		p = s.told
	}
	return p
}

// tell has the other replicas publish an event.
func (s *shared) tell(e Event) {
	if s == nil || !utf8.ValidString(e.URI) { // such a URI nobody has subscribed to
		return
	}
	s.add(&s.waiting.Changes, &s.waiting.ChangesLost, records.NewsItem{Kind: uint8(e.Change), Of: e.URI})
}

// add has an item wait to be written, unless it does so already. If too much waits, that
// anything may have happened is all that is said.
func (s *shared) add(list *[]records.NewsItem, lost *bool, item records.NewsItem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := item
	if list == &s.waiting.Sessions {
		key.N = 1 // of another kind than changes
	}
	if _, waits := s.waits[key]; waits || *lost {
		return
	}
	s.size += len(item.Of)
	if len(*list) >= records.MaxNews || s.size > records.MaxNewsBytes {
		*lost = true
	} else {
		s.waits[key] = struct{}{}
		*list = append(*list, item)
	}
	s.hurry()
}

// Work shares the hub until ctx ends, or the ledger is closed. What waits then is written if
// that is quickly done.
func (h *Hub) Work(ctx context.Context) error {
	s := h.shared
	for ctx.Err() == nil {
		if err := s.workWithKeys(ctx); err != nil {
			return err
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	_ = s.write(last) // of which other replicas hear later, or never, if the ledger is away as well
	return ctx.Err()
}

// workWithKeys works until the keyset is another one.
func (s *shared) workWithKeys(ctx context.Context) error {
	names, err := s.book.NewsNames()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	s.mu.Lock()
	if s.name != names[0] {
		s.name, s.told = names[0], records.Position{}
		if n := s.known[s.name]; n != nil {
			s.told = n.Position()
		}
	}
	s.mu.Unlock()
	closed := make(chan struct{}, len(names))
	for _, name := range names {
		following.Go(func() {
			if errors.Is(s.watchNews(ctx, name), ledger.ErrClosed) {
				closed <- struct{}{}
			}
		})
	}
	look := time.NewTicker(keysEvery)
	defer look.Stop()
	wait := shortPause
	for {
		select {
		case <-s.wake:
		case <-look.C:
			now, err := s.book.NewsNames()
			if err != nil {
				return err
			}
			if !slices.Equal(now, names) {
				return nil
			}
			continue
		case <-closed:
			return ledger.ErrClosed
		case <-ctx.Done():
			return nil
		}
		pause := tellEvery
		err := s.write(ctx)
		s.report(ctx, err)
		if err != nil {
			pause, wait = wait, min(2*wait, longPause)
			s.hurry()
		} else {
			wait = shortPause
		}
		select {
		case <-time.After(pause):
		case <-closed:
			return ledger.ErrClosed
		case <-ctx.Done():
			return nil
		}
	}
}

// hurry has what waits be written soon.
func (s *shared) hurry() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write tells what waits.
func (s *shared) write(ctx context.Context) error {
	s.mu.Lock()
	if empty(&s.flying) { // else they are those that could not be written
		s.flying, s.waiting = s.waiting, records.Telling{}
		clear(s.waits)
		s.size = 0
	}
	s.flying.By = s.by
	flying, name := s.flying, s.name
	known := s.known[name]
	s.mu.Unlock()
	if empty(&flying) || name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	n, err := s.book.Tell(ctx, name, known, flying)
	if err != nil {
		return err
	}
	s.heard(name, n, true)
	s.mu.Lock()
	more := !empty(&s.waiting)
	s.mu.Unlock()
	if more {
		s.hurry()
	}
	return nil
}

func empty(t *records.Telling) bool {
	return len(t.Changes)+len(t.Sessions)+len(t.Cancelled) == 0 && !t.ChangesLost && !t.SessionsLost
}

// watchNews publishes what others tell until ctx ends or the store is closed.
func (s *shared) watchNews(ctx context.Context, name string) error {
	wait := shortPause
	for {
		var failed error
		for n, err := range s.book.WatchNews(ctx, name) {
			if failed = err; err != nil {
				break
			}
			s.report(ctx, nil)
			s.heard(name, n, false)
			wait = shortPause
		}
		if ctx.Err() != nil || errors.Is(failed, ledger.ErrClosed) {
			return failed
		}
		s.report(ctx, failed)
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return ctx.Err()
		}
		wait = min(2*wait, longPause)
	}
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
		s.log.WarnContext(ctx, "other replicas are not told of changes at present, nor is this one", "error", err)
	case err == nil && was:
		s.log.InfoContext(ctx, "replicas are told of changes again")
	}
}

// heard publishes what is new in the news. own says that they have been written here just now.
func (s *shared) heard(name string, n *records.News, own bool) {
	ids, touched, cancelled := s.publish(name, n, own)
	// Without a lock: whoever is told may hold what a subscriber waits for.
	if touched && s.on != nil {
		s.on(ids)
	}
	if len(cancelled) > 0 && s.off != nil {
		s.off(cancelled)
	}
}

// publish returns the sessions that others have touched, nil if any may have been, and what others
// were told that is cancelled.
func (s *shared) publish(name string, n *records.News, own bool) (ids []SessionID, touched bool, cancelled []GivenUp) {
	s.hear.Lock()
	defer s.hear.Unlock()
	s.mu.Lock()
	old := s.known[name]
	same := old != nil && old.Epoch == n.Epoch
	if own {
		s.flying = records.Telling{}
	}
	if same && n.Last <= old.Last { // the watch is behind what was written here
		s.mu.Unlock()
		return nil, false, nil
	}
	s.known[name] = n
	s.mu.Unlock()

	var after uint64
	if same {
		after = old.Last
	}
	// Of the first news, subscribers that were here before them may not have heard: all is told
	// that is in them. News in another epoch may lack anything.
	another := old != nil && !same
	changes, lost := n.Changes.After(after)
	if lost || another {
		s.hub.publishAll()
	} else {
		for _, item := range changes {
			if item.By != s.by && item.Kind <= uint8(ResourceUpdated) {
				s.hub.publish(Event{Change(item.Kind), item.Of})
			}
		}
	}
	s.mu.Lock()
	if name == s.name {
		s.told = n.Position()
	}
	s.mu.Unlock()
	if items, _ := n.Cancelled.After(after); !another { // else they may be of long ago
		cancelled = cancelledOf(items, s.by)
	}
	sessions, lost := n.Sessions.After(after)
	if lost || another {
		return nil, true, cancelled
	}
	ids = sessionsOf(sessions, s.by)
	return ids, len(ids) > 0, cancelled
}

func sessionText(id SessionID) string {
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func readSession(text string) (id SessionID, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	return SessionID(raw), true
}

// sessionsOf are the sessions of these items that others have told.
func sessionsOf(items []records.NewsItem, by string) (ids []SessionID) {
	for _, item := range items {
		if id, ok := readSession(item.Of); ok && item.By != by {
			ids = append(ids, id)
		}
	}
	return ids
}

// cancelledOf are the requests of these items that others have told.
func cancelledOf(items []records.NewsItem, by string) (list []GivenUp) {
	for _, item := range items {
		session, request, _ := strings.Cut(item.Of, ".")
		if id, ok := readSession(session); ok && item.By != by {
			list = append(list, GivenUp{id, request})
		}
	}
	return list
}
