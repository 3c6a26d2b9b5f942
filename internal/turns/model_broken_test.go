package turns

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// brokenStore is a store that keeps less than it promises.
type brokenStore struct {
	ledger.Store
	mu     sync.Mutex
	swap   func(ctx context.Context, r *ledger.Record) error
	hidden map[string]bool // records that are there and not found
	early  bool
	// ownClocks: leases go by each server's clock.
	ownClocks bool
}

func (b *brokenStore) Load(ctx context.Context, key string) (*ledger.Record, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hidden[key] {
		return nil, ledger.ErrNotFound
	}
	return b.Store.Load(ctx, key)
}

func (b *brokenStore) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.swap != nil {
		return b.swap(ctx, r)
	}
	if b.hidden[r.Key] {
		delete(b.hidden, r.Key)
		return b.force(ctx, r)
	}
	if b.early && !r.Keep.IsZero() && time.Until(r.Keep) < 24*time.Hour {
		defer func() { b.hidden[r.Key] = true }()
	}
	return b.Store.Swap(ctx, r, items...)
}

// force writes whatever is there.
func (b *brokenStore) force(ctx context.Context, r *ledger.Record) error {
	r.Rev = 0
	if now, err := b.Store.Load(ctx, r.Key); err == nil {
		r.Rev = now.Rev
	}
	return b.Store.Swap(ctx, r)
}

const seldomFound = "ends are forgotten before all clocks say that no token can be taken"

// The model would be worth little if it found nothing.
func TestModelFindsBrokenStores(t *testing.T) {
	for name, change := range map[string]func(b *brokenStore){
		"the last one to write wins": func(b *brokenStore) { b.swap = b.force },
		"some writes are lost": func(b *brokenStore) {
			n := 0
			b.swap = func(ctx context.Context, r *ledger.Record) error {
				if n++; n%5 == 0 && r.Owner != "" {
					r.Rev++
					return nil
				}
				return b.Store.Swap(ctx, r)
			}
		},
		"nothing is ever due": func(b *brokenStore) {
			b.swap = func(ctx context.Context, r *ledger.Record) error {
				kept := *r
				kept.Wake = time.Time{}
				err := b.Store.Swap(ctx, &kept)
				r.Rev = kept.Rev
				return err
			}
		},
		"records are forgotten too early":        func(b *brokenStore) { b.early = true },
		"leases go by the clocks of the servers": func(b *brokenStore) { b.ownClocks = true },
		seldomFound: func(b *brokenStore) {
			b.swap = func(ctx context.Context, r *ledger.Record) error {
				kept := *r
				if !r.Keep.IsZero() {
					kept.Keep = r.Keep.Add(-modelSkew)
				}
				err := b.Store.Swap(ctx, &kept)
				r.Rev = kept.Rev
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
				found = len(playSchedule(t, s, func(s ledger.Store) ledger.Store {
					b := &brokenStore{Store: s, hidden: map[string]bool{}}
					change(b)
					return b
				})) > 0
			}
			assert.True(t, found, "no schedule finds it")
		})
	}
}
