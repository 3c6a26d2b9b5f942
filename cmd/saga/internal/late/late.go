// Package late is a ledger whose database cannot be reached yet: servers start without it,
// and use it when it is there.
package late

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

const (
	// first is how long the start waits for the database.
	first = 10 * time.Second
	// pause is how long it is left alone after an attempt.
	pause = 2 * time.Second
	// reminder is how often the log says that it still cannot be opened.
	reminder = time.Minute
)

// Open opens a ledger. If that fails and away says that it may well be there later, Open
// returns a store all the same, which keeps trying. Until it has succeeded, its methods
// fail with the error, and those that wait do so.
func Open(ctx context.Context, log *slog.Logger, open func(context.Context) (ledger.Store, error), away func(error) bool) (ledger.Store, error) {
	limited, cancel := context.WithTimeout(ctx, first)
	defer cancel()
	inner, err := open(limited)
	if err == nil || ctx.Err() != nil || limited.Err() == nil && !away(err) {
		return inner, err
	}
	log.Warn("the ledger cannot be reached; what needs it is refused until it can be", "error", err)
	s := &store{open: open, log: log, why: err, ended: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.try()
	return s, nil
}

type store struct {
	open func(context.Context) (ledger.Store, error)
	log  *slog.Logger

	ctx   context.Context // ends when the store is closed
	stop  context.CancelFunc
	ended chan struct{} // closed when there are no more attempts

	mu    sync.Mutex
	inner ledger.Store // nil until it is there
	why   error        // of the last attempt
}

func (s *store) try() {
	defer close(s.ended)
	logged := time.Now()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(pause):
		}
		limited, cancel := context.WithTimeout(s.ctx, first)
		inner, err := s.open(limited)
		cancel()
		if err == nil {
			s.mu.Lock()
			s.inner = inner
			s.mu.Unlock()
			s.log.Info("the ledger is there now")
			return
		}
		s.mu.Lock()
		changed := s.why.Error() != err.Error()
		s.why = err
		s.mu.Unlock()
		if s.ctx.Err() == nil && (changed || time.Since(logged) >= reminder) {
			logged = time.Now()
			s.log.Warn("the ledger still cannot be opened", "error", err)
		}
	}
}

// get returns the store, or why there is none.
func (s *store) get(ctx context.Context) (ledger.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.inner != nil:
		return s.inner, nil
	case s.ctx.Err() != nil:
		return nil, ledger.ErrClosed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("the ledger has not been reached yet: %w", s.why)
}

// wait returns the store when it is there.
func (s *store) wait(ctx context.Context) (ledger.Store, error) {
	select {
	case <-s.ended:
	case <-ctx.Done():
	}
	return s.get(ctx)
}

func (s *store) Close() error {
	s.stop()
	<-s.ended
	if inner, err := s.get(context.Background()); err == nil {
		return inner.Close()
	}
	return nil
}

// with has do use the store, if it is there.
func with[T any](ctx context.Context, s *store, do func(ledger.Store) (T, error)) (T, error) {
	inner, err := s.get(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return do(inner)
}

// What follows are the methods of [ledger.Store] and [ledger.Notifier].

func (s *store) Load(ctx context.Context, key string) (*ledger.Record, error) {
	return with(ctx, s, func(l ledger.Store) (*ledger.Record, error) { return l.Load(ctx, key) })
}

func (s *store) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	_, err := with(ctx, s, func(l ledger.Store) (any, error) { return nil, l.Swap(ctx, r, items...) })
	return err
}

func (s *store) Items(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
	return with(ctx, s, func(l ledger.Store) ([]ledger.Item, error) { return l.Items(ctx, key, after, limit) })
}

func (s *store) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) {
		inner, err := s.wait(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		inner.Watch(ctx, key, after)(yield)
	}
}

func (s *store) Notify(key string, rev uint64, changed func()) (stop func()) {
	inner, _ := s.get(context.Background())
	if n, ok := inner.(ledger.Notifier); ok {
		return n.Notify(key, rev, changed)
	}
	return nil
}

func (s *store) Take(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
	inner, err := s.wait(ctx)
	if err != nil {
		return nil, err
	}
	return inner.Take(ctx, t)
}

func (s *store) List(ctx context.Context, queues []string, after string, limit int) ([]*ledger.Record, error) {
	return with(ctx, s, func(l ledger.Store) ([]*ledger.Record, error) { return l.List(ctx, queues, after, limit) })
}

func (s *store) Owned(ctx context.Context, owners []string, after string, limit int) ([]*ledger.Record, error) {
	return with(ctx, s, func(l ledger.Store) ([]*ledger.Record, error) { return l.Owned(ctx, owners, after, limit) })
}

func (s *store) Count(ctx context.Context, owner string, most int) (int, error) {
	return with(ctx, s, func(l ledger.Store) (int, error) { return l.Count(ctx, owner, most) })
}

func (s *store) Forget(ctx context.Context, limit int) (int, error) {
	return with(ctx, s, func(l ledger.Store) (int, error) { return l.Forget(ctx, limit) })
}

func (s *store) Now(ctx context.Context) (time.Time, error) {
	return with(ctx, s, func(l ledger.Store) (time.Time, error) { return l.Now(ctx) })
}
