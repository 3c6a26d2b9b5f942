package ledgertest

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

func brokenSets() []variant {
	return []variant{
		each("lists from after on", func(b *broken) {
			b.list = func(ctx context.Context, queues []string, after string, limit int) ([]*ledger.Record, error) {
				if after != "" {
					after = after[:len(after)-1] + string(after[len(after)-1]-1) + "~"
				}
				return b.Store.List(ctx, queues, after, limit)
			}
		}),
		each("lists in the order of a language", func(b *broken) {
			b.list = func(ctx context.Context, queues []string, after string, limit int) ([]*ledger.Record, error) {
				records, err := b.Store.List(ctx, queues, after, limit)
				slices.SortFunc(records, func(a, b *ledger.Record) int {
					return strings.Compare(strings.ToLower(a.Key), strings.ToLower(b.Key))
				})
				return records, err
			}
		}),
		each("lists a limit of each queue", func(b *broken) {
			b.list = func(ctx context.Context, queues []string, after string, limit int) ([]*ledger.Record, error) {
				if len(queues) > 1 {
					limit = max(limit, limit*len(queues))
				}
				return b.Store.List(ctx, queues, after, limit)
			}
		}),
		each("lists what is due only", func(b *broken) {
			b.list = func(ctx context.Context, queues []string, after string, limit int) ([]*ledger.Record, error) {
				records, err := b.Store.List(ctx, queues, after, limit)
				return slices.DeleteFunc(records, func(r *ledger.Record) bool { return time.Until(r.Wake) > 0 }), err
			}
		}),
		each("lists no bodies", func(b *broken) {
			b.list = func(ctx context.Context, queues []string, after string, limit int) ([]*ledger.Record, error) {
				records, err := b.Store.List(ctx, queues, after, limit)
				for _, r := range records {
					r.Body = nil
				}
				return records, err
			}
		}),
		each("lists a limit of each owner", func(b *broken) {
			b.owned = func(ctx context.Context, owners []string, after string, limit int) ([]*ledger.Record, error) {
				if len(owners) > 1 {
					limit = max(limit, limit*len(owners))
				}
				return b.Store.Owned(ctx, owners, after, limit)
			}
		}),
		each("lists what an owner has waiting only", func(b *broken) {
			b.owned = func(ctx context.Context, owners []string, after string, limit int) ([]*ledger.Record, error) {
				records, err := b.Store.Owned(ctx, owners, after, limit)
				return slices.DeleteFunc(records, func(r *ledger.Record) bool { return r.Wake.IsZero() }), err
			}
		}),
		each("counts without end", func(b *broken) {
			b.count = func(ctx context.Context, owner string, _ int) (int, error) {
				return b.Store.Count(ctx, owner, math.MaxInt)
			}
		}),
		{"counts what an owner ever had", func() func(*broken) {
			var mu sync.Mutex
			had := map[string]map[string]bool{}
			return func(b *broken) {
				b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
					err := b.Store.Swap(ctx, r, items...)
					if err == nil && r.Owner != "" {
						mu.Lock()
						defer mu.Unlock()
						if had[r.Owner] == nil {
							had[r.Owner] = map[string]bool{}
						}
						had[r.Owner][r.Key] = true
					}
					return err
				}
				b.count = func(ctx context.Context, owner string, most int) (int, error) {
					if _, err := b.Store.Count(ctx, owner, most); err != nil {
						return 0, err
					}
					mu.Lock()
					defer mu.Unlock()
					return max(0, min(len(had[owner]), most)), nil
				}
			}
		}},
		{"counts what has no owner", func() func(*broken) {
			return func(b *broken) {
				b.count = func(ctx context.Context, owner string, most int) (int, error) {
					n, err := b.Store.Count(ctx, owner, most)
					if owner == "" && err == nil {
						return max(0, min(1, most)), nil
					}
					return n, err
				}
			}
		}},
		keeping("forgets too early", 30*time.Minute),
		keeping("forgets too late", -365*24*time.Hour),
		keeping("forgets a little too early", 200*time.Millisecond),
		each("forgets without a limit", func(b *broken) {
			b.forget = func(ctx context.Context, _ int) (int, error) { return b.Store.Forget(ctx, math.MaxInt) }
		}),
		each("forgets one too few", func(b *broken) {
			b.forget = func(ctx context.Context, limit int) (int, error) { return b.Store.Forget(ctx, limit-1) }
		}),
		each("says that it forgot nothing", func(b *broken) {
			b.forget = func(ctx context.Context, limit int) (int, error) {
				_, err := b.Store.Forget(ctx, limit)
				return 0, err
			}
		}),
		{"forgets records, and keeps their items", func() func(*broken) {
			left := &sync.Map{}
			return func(b *broken) {
				b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
					err := b.Store.Swap(ctx, r, items...)
					if err == nil && len(items) > 0 {
						left.Store(r.Key, items)
					}
					return err
				}
				b.items = func(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
					items, err := b.Store.Items(ctx, key, after, limit)
					if was, ok := left.Load(key); ok && err == nil && len(items) == 0 && after == 0 && limit > 0 {
						return was.([]ledger.Item)[:1], nil
					}
					return items, err
				}
			}
		}},
		{"forgets by itself", func() func(*broken) {
			return func(b *broken) {
				b.load = func(ctx context.Context, key string) (*ledger.Record, error) {
					r, err := b.Store.Load(ctx, key)
					if err == nil && !r.Keep.IsZero() && time.Now().After(r.Keep) {
						return nil, ledger.ErrNotFound
					}
					return r, err
				}
			}
		}},
		{"goes on with the revisions of what was forgotten", func() func(*broken) {
			var mu sync.Mutex
			last := map[string]uint64{}
			return func(b *broken) {
				b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
					fresh := r.Rev == 0
					err := b.Store.Swap(ctx, r, items...)
					mu.Lock()
					defer mu.Unlock()
					if err == nil && fresh && last[r.Key] > 0 {
						for r.Rev <= last[r.Key] && err == nil {
							err = b.Store.Swap(ctx, r)
						}
					}
					if err == nil {
						last[r.Key] = max(last[r.Key], r.Rev)
					}
					return err
				}
			}
		}},
	}
}

// keeping is a variant by whose clock a record's Keep is over too early.
func keeping(name string, by time.Duration) variant {
	return each(name, func(b *broken) {
		b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
			c := *r
			if err := c.Check(items...); err != nil {
				return err
			}
			if !c.Keep.IsZero() && c.Keep.Year() > 1900 && c.Keep.Year() < 2100 {
				c.Keep = c.Keep.Add(-by)
			}
			err := b.Store.Swap(ctx, &c, items...)
			r.Rev = c.Rev
			return err
		}
		back := func(r *ledger.Record) {
			if !r.Keep.IsZero() && r.Keep.Year() > 1900 && r.Keep.Year() < 2100 {
				r.Keep = r.Keep.Add(by)
			}
		}
		b.load = func(ctx context.Context, key string) (*ledger.Record, error) {
			r, err := b.Store.Load(ctx, key)
			if err == nil {
				back(r)
			}
			return r, err
		}
		b.watch = func(ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			b.Store.Watch(ctx, key, after)(func(r *ledger.Record, err error) bool {
				if err == nil {
					back(r)
				}
				return yield(r, err)
			})
		}
		b.take = func(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			records, err := b.Store.Take(ctx, t)
			for _, r := range records {
				back(r)
			}
			return records, err
		}
		b.list = func(ctx context.Context, queues []string, after string, limit int) ([]*ledger.Record, error) {
			records, err := b.Store.List(ctx, queues, after, limit)
			for _, r := range records {
				back(r)
			}
			return records, err
		}
		b.owned = func(ctx context.Context, owners []string, after string, limit int) ([]*ledger.Record, error) {
			records, err := b.Store.Owned(ctx, owners, after, limit)
			for _, r := range records {
				back(r)
			}
			return records, err
		}
	})
}
