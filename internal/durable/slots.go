package durable

import (
	"context"
	"sync"
	"time"
)

// slots are how many sagas a process drives at once. No principal has all of them, nor a tool that is limited. What
// is acquired and has no slot waits for one here, but not for long: else others could not take it.
type slots struct {
	workers, perPrincipal int
	perTool               map[string]int

	mu            sync.Mutex
	freed         *sync.Cond // when a slot has become free, or all is true
	all           bool       // everything gets a slot, to be handed over
	busy, waiting int
	quotas        map[string]quota // of principals
	tools         map[string]int
	average       time.Duration // how long a saga has its slot, as a moving average
}

// share is what a saga takes of the slots.
type share struct {
	principal, tool string
	waited          bool // for a slot, so the row may not be as it was taken
}

// quota is what a principal has of the slots.
type quota struct {
	busy, waiting int
	next          time.Time // when the next of its sagas may be taken that found no slot
}

// await waits until there is a slot, and returns how many there are; 0 if ctx ends before.
func (s *slots) await(ctx context.Context) int {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.freed.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy >= s.workers && ctx.Err() == nil {
		s.freed.Wait()
	}
	return max(s.workers-s.busy, 0)
}

func (s *slots) fits(h *share) bool {
	most, limited := s.perTool[h.tool]
	return s.all || s.busy < s.workers && s.quotas[h.principal].busy < s.perPrincipal && (!limited || s.tools[h.tool] < most)
}

// count adds to the slots that are taken, and to what waits for one.
func (s *slots) count(h *share, busy, waiting int) {
	s.busy += busy
	s.waiting += waiting
	q := s.quotas[h.principal]
	q.busy += busy
	q.waiting += waiting
	if s.quotas[h.principal] = q; q.busy+q.waiting == 0 && !q.next.After(time.Now()) {
		delete(s.quotas, h.principal)
	}
	if s.tools[h.tool] += busy; s.tools[h.tool] == 0 {
		delete(s.tools, h.tool)
	}
}

// reserve occupies a slot, if there is one for which nothing waits.
func (s *slots) reserve(h *share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all || !s.fits(h) || s.quotas[h.principal].waiting > 0 {
		return false
	}
	s.count(h, 1, 0)
	return true
}

// How long a saga is put back for which there is no slot.
const (
	shortPutBack = 50 * time.Millisecond
	longPutBack  = 5 * time.Second
)

// admit has a saga run when it has a slot. If too many wait for one, pause says for how long it is to
// be put back: until it could have its turn, if each of the principal's takes as long as sagas take.
func (s *slots) admit(h *share, run func()) (pause time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.quotas[h.principal]; !s.fits(h) && (q.waiting >= s.perPrincipal || s.waiting >= s.workers) {
		now := time.Now()
		q.next = later(q.next, now).Add(max(s.average, time.Millisecond) / time.Duration(s.perPrincipal))
		s.quotas[h.principal] = q
		return min(max(q.next.Sub(now), shortPutBack), longPutBack), false
	}
	s.count(h, 0, 1)
	go func() {
		s.mu.Lock()
		for !s.fits(h) {
			h.waited = true
			s.freed.Wait()
		}
		s.count(h, 1, -1)
		s.mu.Unlock()
		run()
	}()
	return 0, true
}

// leave gives up the slot of a saga that took so long.
func (s *slots) leave(h *share, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.average += (took - s.average) / 16
	s.count(h, -1, 0)
	s.freed.Broadcast()
}

// open has everything run that waits, to be handed over, or undoes that.
func (s *slots) open(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = all
	s.freed.Broadcast()
}
