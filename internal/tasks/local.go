package tasks

import (
	"sync"

	"github.com/mcpsaga/mcpsaga/internal/records"
)

// shown is the newest state of a task that runs here, for those who watch it here: they need not
// ask the store.
type shown struct {
	mu   sync.Mutex
	e    *records.TaskEntry
	over bool          // it does not run here any more
	bell chan struct{} // closed at the next change; nil if nobody waits
}

// set shows what was written.
func (s *shown) set(e *records.TaskEntry, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := over || s.e == nil || e.Seen != s.e.Seen || status(e) != status(s.e)
	s.e, s.over = e, s.over || over
	if changed && s.bell != nil {
		close(s.bell)
		s.bell = nil
	}
}

// get returns what is shown. The channel is closed when something has changed; it is nil if
// that is seen only in the store.
func (s *shown) get() (*records.TaskEntry, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return s.e, nil
	}
	if s.bell == nil {
		s.bell = make(chan struct{})
	}
	return s.e, s.bell
}
