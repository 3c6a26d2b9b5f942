package tasks

import (
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
)

// Bounds of what is shown of a task that runs here without asking the store: how many events,
// and how many bytes they have.
const (
	maxShown     = 1000
	maxShownSize = 1 << 20
)

// shown is the newest state of a task that runs here, and what it has told last, for those who
// watch it here: they need not ask the store. All of it is in the store already.
type shown struct {
	mu   sync.Mutex
	e    *records.TaskEntry // nil: there is no record yet
	over bool               // it does not run here any more
	bell chan struct{}      // closed at the next change; nil if nobody waits

	events []shownEvent // without a gap up to e.Events
	size   int
	newest uint64 // the number of the newest event that is known here
	rev    uint64 // the newest revision of the record that is
}

type shownEvent struct {
	Event
	size int
}

// set shows what was written, with the events that were told with it.
func (s *shown) set(e *records.TaskEntry, over bool, told ...shownEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := over || e != nil && (s.e == nil || e.Seen != s.e.Seen || status(e) != status(s.e))
	if e != nil {
		had := uint64(0)
		if s.e != nil {
			had = s.e.Events
		}
		if had+uint64(len(told)) != e.Events {
			s.events, s.size = nil, 0 // what was told before is not known here
		}
		s.keep(told)
		s.newest, s.rev = max(s.newest, e.Events), max(s.rev, e.Rev())
	}
	s.e, s.over = e, s.over || over
	if changed && s.bell != nil {
		close(s.bell)
		s.bell = nil
	}
}

func (s *shown) keep(told []shownEvent) {
	for i := range told {
		s.size += told[i].size
	}
	s.events = append(s.events, told...)
	for len(s.events) > maxShown || s.size > maxShownSize && len(s.events) > 0 {
		s.size -= s.events[0].size
		s.events = s.events[1:]
	}
}

// saw notes that the store has shown e: nobody is to see less of the task any more.
func (s *shown) saw(e *records.TaskEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest, s.rev = max(s.newest, e.Events), max(s.rev, e.Rev())
}

// since returns the events after a number, or false if only the store may have them all: when the
// lease is over now, somebody else may have told more.
func (s *shown) since(after uint64, limit int, now time.Time) (list []Event, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.e == nil || s.over && s.e.State != records.TaskEnded || s.newest > s.e.Events || s.e.Taken() && !now.Before(s.e.Wake) {
		return nil, false
	}
	gone := s.e.Events - uint64(len(s.events))
	if after < gone {
		return nil, false
	}
	for i := after - gone; i < uint64(len(s.events)) && len(list) < limit; i++ {
		list = append(list, s.events[i].Event)
	}
	return list, true
}

// newestEntry returns what is shown.
func (s *shown) newestEntry() *records.TaskEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.e
}

// get returns what is shown, and a channel that is closed when something has changed; nil if changes
// are to be seen in the store only.
func (s *shown) get() (*records.TaskEntry, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.e != nil && s.e.Rev() < s.rev {
		return nil, nil
	}
	if s.over {
		return s.e, nil
	}
	if s.bell == nil {
		s.bell = make(chan struct{})
	}
	return s.e, s.bell
}
