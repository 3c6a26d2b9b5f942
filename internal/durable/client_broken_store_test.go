package durable_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/store"
)

// brokenStore is a store that keeps less than it promises.
type brokenStore struct {
	store.Store
	mu     sync.Mutex
	write  func(ctx context.Context, r *store.Record, c store.Change) error
	take   func(ctx context.Context, t store.Take) ([]*store.Record, time.Time, error)
	hidden map[store.ID]bool // records that are there and not found
	early  bool
}

func (b *brokenStore) Load(ctx context.Context, id store.ID) (*store.Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hidden[id] {
		return nil, store.ErrNotFound
	}
	return b.Store.Load(ctx, id)
}

func (b *brokenStore) Write(ctx context.Context, r *store.Record, c store.Change) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.write != nil {
		return b.write(ctx, r, c)
	}
	if b.early && !r.Keep.IsZero() && time.Until(r.Keep) < 24*time.Hour {
		defer func() { b.hidden[r.ID] = true }()
	}
	return b.Store.Write(ctx, r, c)
}

func (b *brokenStore) Take(ctx context.Context, t store.Take) ([]*store.Record, time.Time, error) {
	if b.take != nil {
		return b.take(ctx, t)
	}
	return b.Store.Take(ctx, t)
}

const seldomFound = "ends are forgotten before all clocks say that no token can be taken"

// The model would be worth little if it found nothing.
func TestModelOfClientsFindsBrokenStores(t *testing.T) {
	for name, change := range map[string]func(b *brokenStore){
		"some writes are lost": func(b *brokenStore) {
			n := 0
			b.write = func(ctx context.Context, r *store.Record, c store.Change) error {
				if n++; n%5 == 0 && r.Head > 0 {
					r.Head += uint64(len(c.Items))
					r.Now = r.Now.Add(time.Millisecond)
					return nil
				}
				return b.Store.Write(ctx, r, c)
			}
		},
		"nothing is ever due": func(b *brokenStore) {
			b.take = func(context.Context, store.Take) ([]*store.Record, time.Time, error) { return nil, time.Time{}, nil }
		},
		"records are forgotten too early": func(b *brokenStore) { b.early = true },
		"leases are over at once": func(b *brokenStore) {
			b.write = func(ctx context.Context, r *store.Record, c store.Change) error {
				c.Lease = min(c.Lease, time.Microsecond)
				return b.Store.Write(ctx, r, c)
			}
		},
		seldomFound: func(b *brokenStore) {
			b.write = func(ctx context.Context, r *store.Record, c store.Change) error {
				kept := *r
				if !r.Keep.IsZero() {
					kept.Keep = r.Keep.Add(-modelSkew)
				}
				err := b.Store.Write(ctx, &kept, c)
				if err == nil {
					kept.Keep, *r = r.Keep, kept
				}
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == seldomFound {
				longtests.OnlyIfWanted(t, "plays hundreds of schedules until it is found")
			}
			found := false
			for seed := 0; seed < 500 && !found; seed++ {
				s := schedules().Example(seed)
				for n := range 8 { // what some of them need to be found
					s.Events = append(s.Events, event{Kind: "late", A: n % 3, B: seed + n, C: n})
				}
				found = len(playSchedule(t, s, func(s store.Store) store.Store {
					b := &brokenStore{Store: s, hidden: map[store.ID]bool{}}
					change(b)
					return b
				})) > 0
			}
			assert.True(t, found, "no schedule finds it")
		})
	}
}
