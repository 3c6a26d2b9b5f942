package tasks_test

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// spy counts what is done with a store, and lets some of it fail.
type spy struct {
	ledger.Store
	swaps, reads atomic.Int32
	mu           sync.Mutex
	swap         func(swap func() error) error // what becomes of a swap; nil is what should
}

func (s *spy) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	s.swaps.Add(1)
	s.mu.Lock()
	how := s.swap
	s.mu.Unlock()
	if how == nil {
		return s.Store.Swap(ctx, r, items...)
	}
	rev := r.Rev
	err := how(func() error { return s.Store.Swap(ctx, r, items...) })
	if err != nil {
		r.Rev = rev
	}
	return err
}

func (s *spy) Load(ctx context.Context, key string) (*ledger.Record, error) {
	s.reads.Add(1)
	return s.Store.Load(ctx, key)
}

func (s *spy) Items(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
	s.reads.Add(1)
	return s.Store.Items(ctx, key, after, limit)
}

func (s *spy) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return s.Store.Watch(ctx, key, after)
}

func (s *spy) fails(how func(swap func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swap = how
}

// spied is a rig whose servers use the store through a spy.
func spied(r *rig) *spy {
	s := &spy{Store: r.store}
	r.store = s
	return s
}
