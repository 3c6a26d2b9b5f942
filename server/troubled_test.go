package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/ledger"
)

var errDown = errors.New("out of order")

// errFull is what SQLite says: what it has not written altogether may be found after a crash.
var errFull = fmt.Errorf("the disk is full: %w", store.ErrUnknown)

// troubled is a ledger that counts what is asked of it, and can be in trouble.
type troubled struct {
	*storetest.Intercept
	loads, writes, calls atomic.Int64 // calls are writes of tasks and of calls of sessions
	hangs                atomic.Bool
	full                 atomic.Bool                          // it can be read, and not written
	on                   atomic.Pointer[func(storetest.Call)] // called before each call

	mu      sync.Mutex
	down    bool
	listens map[*context.CancelCauseFunc]struct{}
}

// before has f called before each call.
func (s *troubled) before(f func(storetest.Call)) { s.on.Store(&f) }

func newTroubled(inner ledger.Store) *troubled {
	s := &troubled{listens: make(map[*context.CancelCauseFunc]struct{})}
	s.Intercept = &storetest.Intercept{Store: inner, Around: s.around}
	return s
}

func (s *troubled) around(ctx context.Context, c storetest.Call, next func() error) error {
	if on := s.on.Load(); on != nil {
		(*on)(c)
	}
	switch {
	case c.Method == "Load" || c.Method == "Find":
		s.loads.Add(1)
	case c.Writes():
		s.writes.Add(1)
		if c.Record != nil && (c.Record.Mode == store.ModeTask || c.Record.Mode == store.ModeCall) {
			s.calls.Add(1)
		}
	}
	if err := s.fail(ctx); err != nil {
		return err
	}
	if s.full.Load() && (c.Writes() || c.Method == "Check") {
		return errFull
	}
	return next()
}

// fail is how a call fails now; nil if it does not.
func (s *troubled) fail(ctx context.Context) error {
	if s.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	return nil
}

func (s *troubled) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	for cancel := range s.listens {
		(*cancel)(errDown)
	}
}

// Listen implements [store.Store]: it ends when the ledger goes down.
func (s *troubled) Listen(ctx context.Context, changed func(store.ID, uint64)) error {
	if err := s.fail(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	s.listens[&cancel] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listens, &cancel)
	}()
	err := s.Store.Listen(ctx, changed)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}
