package ways

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

const (
	doPath   = "/do"
	undoPath = "/undo"
	// callerHeader names the process that calls.
	callerHeader = "Caller"
)

// deed is what the service is asked to do or to undo. The key tells one from another.
type deed struct {
	Key, Order, What string
}

// entry is what became of a deed.
type entry struct {
	deed
	// performed and undone count what was really done; calls counts the requests to do it.
	performed, undone, calls int
	barred                   bool
}

// service does what it is asked once for each key, and never what was undone before.
type service struct {
	*httptest.Server
	mu      sync.Mutex
	entries map[string]*entry
	// at is told of each moment; it reports whether the caller is gone.
	at func(name, caller string) (gone bool)
}

func newService(t *testing.T, at func(name, caller string) bool) *service {
	s := &service{entries: map[string]*entry{}, at: at}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var d deed
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name, caller := r.URL.Path+" "+d.What, r.Header.Get(callerHeader)
	if s.at("before "+name, caller) {
		panic(http.ErrAbortHandler)
	}
	ok := s.perform(r.URL.Path, d)
	if s.at("after "+name, caller) {
		panic(http.ErrAbortHandler)
	}
	if !ok {
		http.Error(w, "it was undone", http.StatusConflict)
	}
}

func (s *service) perform(path string, d deed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[d.Key]
	if e == nil {
		e = &entry{deed: d}
		s.entries[d.Key] = e
	}
	if path == undoPath {
		if !e.barred && e.performed > 0 {
			e.undone++
		}
		e.barred = true
		return true
	}
	e.calls++
	if e.barred {
		return false
	}
	if e.performed == 0 {
		e.performed++
	}
	return true
}

// state says what is done for an order: "all", "none", or what is wrong.
func (s *service) state(order string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	stands := map[string]int{}
	for _, e := range s.entries {
		if e.Order == order && e.performed > e.undone {
			stands[e.What]++
		}
	}
	switch {
	case len(stands) == 0:
		return "none"
	case stands["reserve"] == 1 && stands["paid"] == 1 && stands["ship"] == 1:
		return "all"
	}
	var all []string
	for what, n := range stands {
		all = append(all, fmt.Sprintf("%d %s", n, what))
	}
	return strings.Join(all, ", ")
}
