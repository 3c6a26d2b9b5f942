package ledgertest

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

func brokenReads() []variant {
	return []variant{
		each("reads what it read a moment ago", func(b *broken) {
			type read struct {
				r  *ledger.Record
				at time.Time
			}
			var mu sync.Mutex
			last := map[string]read{}
			b.load = func(ctx context.Context, key string) (*ledger.Record, error) {
				mu.Lock()
				defer mu.Unlock()
				if was, ok := last[key]; ok && time.Since(was.at) < 50*time.Millisecond {
					c := *was.r
					c.Body = slices.Clone(c.Body)
					return &c, nil
				}
				r, err := b.Store.Load(ctx, key)
				if err == nil {
					c := *r
					c.Body = slices.Clone(c.Body)
					last[key] = read{&c, time.Now()}
				}
				return r, err
			}
		}),
		each("reads a record in two steps", func(b *broken) {
			b.load = func(ctx context.Context, key string) (*ledger.Record, error) {
				r, err := b.Store.Load(ctx, key)
				if err != nil {
					return nil, err
				}
				time.Sleep(time.Millisecond)
				later, err := b.Store.Load(ctx, key)
				if err != nil {
					return nil, err
				}
				r.Body = later.Body
				return r, nil
			}
		}),
		each("has no error for what is not there", func(b *broken) {
			b.load = func(ctx context.Context, key string) (*ledger.Record, error) {
				r, err := b.Store.Load(ctx, key)
				if errors.Is(err, ledger.ErrNotFound) {
					return nil, nil
				}
				return r, err
			}
		}),
		each("gives items from after on", func(b *broken) {
			b.items = func(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
				return b.Store.Items(ctx, key, max(after, 1)-1, limit)
			}
		}),
		each("gives items in the order of writing", func(b *broken) {
			b.items = func(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
				items, err := b.Store.Items(ctx, key, after, limit)
				slices.SortFunc(items, func(a, b ledger.Item) int { return int(a.N%10) - int(b.N%10) })
				return items, err
			}
		}),
		each("gives one item too many", func(b *broken) {
			b.items = func(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
				return b.Store.Items(ctx, key, after, max(limit, limit+1))
			}
		}),
		each("takes a negative limit for none", func(b *broken) {
			b.items = func(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
				if limit < 0 {
					limit = 1000
				}
				return b.Store.Items(ctx, key, after, limit)
			}
		}),
		each("takes a large number for a negative one", func(b *broken) {
			b.items = func(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
				if after > math.MaxInt64 {
					after = 0
				}
				return b.Store.Items(ctx, key, after, limit)
			}
		}),
		each("goes by its process's clock", func(b *broken) {
			b.now = func(ctx context.Context) (time.Time, error) {
				now, err := b.Store.Now(ctx)
				return now.Add(b.skew), err
			}
		}),
		each("has a clock that stands still", func(b *broken) {
			start := time.Now()
			b.now = func(context.Context) (time.Time, error) { return start, nil }
		}),
	}
}
