package durable

import (
	"context"
	"sync"
	"time"
)

// slots are how many sagas a process drives at once. No principal has all of them, nor a tool that is
// limited. What is acquired and has no slot waits for one here, but not for long: else others could
// not take it.
type slots struct {
	workers, perPrincipal int
	perTool               map[string]int

	mu      sync.Mutex
	all     bool // everything gets a slot, to be handed over
	busy    int
	waiting []waiter
	shares  map[string]*quota
	tools   map[string]int
	average time.Duration // how long a saga has its slot, as a moving average

	freed chan struct{} // has one when a slot has become free
}

// share is what a saga takes of the slots.
type share struct{ principal, tool string }

// quota is what a principal has of the slots.
type quota struct {
	busy, waiting int
	next          time.Time // when the next of its sagas may be taken that found no slot
}

type waiter struct {
	h     *hold
	begin func()
}

func (s *slots) init(workers, perPrincipal int, perTool map[string]int) {
	s.workers, s.perPrincipal, s.perTool = workers, perPrincipal, perTool
	s.shares, s.tools = make(map[string]*quota), make(map[string]int)
	s.freed = make(chan struct{}, 1)
}

// await waits until there is a slot, and returns how many there are; 0 if ctx ends before.
func (s *slots) await(ctx context.Context) int {
	for {
		s.mu.Lock()
		room := s.workers - s.busy
		s.mu.Unlock()
		if room > 0 || ctx.Err() != nil {
			return max(room, 0)
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return 0
		}
	}
}

func (s *slots) fits(h *share) bool {
	most, limited := s.perTool[h.tool]
	q := s.shares[h.principal]
	return s.all || s.busy < s.workers && (q == nil || q.busy < s.perPrincipal) && (!limited || s.tools[h.tool] < most)
}

func (s *slots) quota(principal string) *quota {
	if s.shares[principal] == nil {
		s.shares[principal] = new(quota)
	}
	return s.shares[principal]
}

func (s *slots) occupy(h *share) {
	s.busy++
	s.quota(h.principal).busy++
	s.tools[h.tool]++
}

// reserve occupies a slot, if there is one for which nothing waits.
func (s *slots) reserve(h *share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.shares[h.principal]; s.all || !s.fits(h) || q != nil && q.waiting > 0 {
		return false
	}
	s.occupy(h)
	return true
}

// How long a saga is put back for which there is no slot.
const (
	shortPutBack = 50 * time.Millisecond
	longPutBack  = 5 * time.Second
)

// admit has a saga begin when it has a slot. If too many wait for one, pause says for how long it is to
// be put back: until it could have its turn, if each of the principal's takes as long as sagas take.
func (s *slots) admit(h *hold, begin func()) (pause time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.quota(h.share.principal)
	switch {
	case s.fits(h.share):
		s.occupy(h.share)
		begin()
		return 0, true
	case q.waiting < s.perPrincipal && len(s.waiting) < s.workers:
		q.waiting++
		s.waiting = append(s.waiting, waiter{h, begin})
		return 0, true
	}
	now := time.Now()
	q.next = later(q.next, now).Add(max(s.average, time.Millisecond) / time.Duration(s.perPrincipal))
	return min(max(q.next.Sub(now), shortPutBack), longPutBack), false
}

// leave gives up the slot of a saga that took so long, and has others begin.
func (s *slots) leave(h *hold, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.average += (took - s.average) / 16
	s.free(h.share)
	s.advance()
}

// free gives up a slot.
func (s *slots) free(h *share) {
	s.busy--
	q := s.quota(h.principal)
	if q.busy--; q.busy == 0 && q.waiting == 0 && !q.next.After(time.Now()) {
		delete(s.shares, h.principal)
	}
	if s.tools[h.tool]--; s.tools[h.tool] == 0 {
		delete(s.tools, h.tool)
	}
	signal(s.freed)
}

// release gives up a slot that was reserved and is not needed.
func (s *slots) release(h *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free(h)
	s.advance()
}

// advance begins what waits and has a slot now.
func (s *slots) advance() {
	for i := 0; i < len(s.waiting); {
		w := s.waiting[i]
		if !s.fits(w.h.share) {
			i++
			continue
		}
		s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
		s.quota(w.h.share.principal).waiting--
		s.occupy(w.h.share)
		w.begin()
	}
}

// open has everything begin that waits, to be handed over.
func (s *slots) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = true
	s.advance()
}

// close undoes open.
func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = false
}
