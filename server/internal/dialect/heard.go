package dialect

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// What other replicas have told is published here, and whoever keeps sessions hears of it.

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
