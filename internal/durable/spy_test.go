package durable_test

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
)

// spy counts what is done with a store, and lets some of it fail.
type spy struct {
	storetest.Intercept
	writes, reads atomic.Int32
	mu            sync.Mutex
	how           func(write func() error) error // what becomes of a write; nil is what should
}

func (s *spy) around(_ context.Context, c storetest.Call, next func() error) error {
	switch {
	case c.Method == "Load", c.Method == "Find", c.Method == "Log":
		s.reads.Add(1)
	case c.Writes():
		s.writes.Add(1)
		s.mu.Lock()
		how := s.how
		s.mu.Unlock()
		if how != nil {
			return how(next)
		}
	}
	return next()
}

// fails has writes end as how says; nil has them succeed.
func (s *spy) fails(how func(write func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.how = how
}

// spied is a rig whose servers use the store through a spy.
func spied(r *rig) *spy {
	s := &spy{Intercept: storetest.Intercept{Store: r.store}}
	s.Around = s.around
	r.store = s
	return s
}
