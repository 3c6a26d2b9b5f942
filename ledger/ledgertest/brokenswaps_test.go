package ledgertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

func brokenSwaps() []variant {
	return []variant{
		each("does not compare revisions", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				for {
					c := *r
					c.Rev = 0
					if now, err := b.Store.Load(ctx, r.Key); err == nil {
						c.Rev = now.Rev
					}
					err := b.Store.Swap(ctx, &c, items...)
					if !errors.Is(err, ledger.ErrConflict) || len(items) > 0 {
						r.Rev = c.Rev
						return err
					}
				}
			}
		}),
		each("compares, and writes later", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				rev := uint64(0)
				if now, err := b.Store.Load(ctx, r.Key); err == nil {
					rev = now.Rev
				}
				if rev != r.Rev {
					return b.Store.Swap(ctx, r, items...)
				}
				time.Sleep(10 * time.Millisecond)
				for ; ; r.Rev++ {
					err := b.Store.Swap(ctx, r, items...)
					if !errors.Is(err, ledger.ErrConflict) || r.Rev > rev+50 {
						return err
					}
				}
			}
		}),
		each("writes what is new over what there is", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				if now, err := b.Store.Load(ctx, r.Key); err == nil && r.Rev == 0 {
					r.Rev = now.Rev
				}
				return b.Store.Swap(ctx, r, items...)
			}
		}),
		each("creates at any revision", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				if _, err := b.Store.Load(ctx, r.Key); errors.Is(err, ledger.ErrNotFound) {
					r.Rev = 0
				}
				return b.Store.Swap(ctx, r, items...)
			}
		}),
		each("changes its argument in a conflict", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				err := b.Store.Swap(ctx, r, items...)
				if errors.Is(err, ledger.ErrConflict) {
					r.Rev++
				}
				return err
			}
		}),
		each("does not tell the revision", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				c := *r
				return b.Store.Swap(ctx, &c, items...)
			}
		}),
		each("loses an item", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				return b.Store.Swap(ctx, r, items[:min(len(items), 1)]...)
			}
		}),
		each("loses items beyond a hundred", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				return b.Store.Swap(ctx, r, items[:min(len(items), 100)]...)
			}
		}),
		each("keeps the record though an item conflicts", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				c := *r
				err := b.Store.Swap(ctx, r, items...)
				if errors.Is(err, ledger.ErrConflict) && len(items) > 0 {
					_ = b.Store.Swap(ctx, &c)
				}
				return err
			}
		}),
		each("ignores items that there are", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				var fresh []ledger.Item
				for _, item := range items {
					got, _ := b.Store.Items(ctx, r.Key, item.N-1, 1)
					if len(got) == 0 || got[0].N != item.N {
						fresh = append(fresh, item)
					}
				}
				return b.Store.Swap(ctx, r, fresh...)
			}
		}),
		each("ignores an item that is given twice", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				items = slices.Clone(items)
				slices.SortStableFunc(items, func(a, b ledger.Item) int { return int(a.N) - int(b.N) })
				return b.Store.Swap(ctx, r, slices.CompactFunc(items, func(a, b ledger.Item) bool { return a.N == b.N })...)
			}
		}),
		{"keeps its argument's body", func() func(*broken) {
			bodies := &sync.Map{}
			return func(b *broken) {
				b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
					err := b.Store.Swap(ctx, r, items...)
					if err == nil {
						bodies.Store(r.Key, r.Body)
					}
					return err
				}
				b.load = func(ctx context.Context, key string) (*ledger.Record, error) {
					r, err := b.Store.Load(ctx, key)
					if body, ok := bodies.Load(key); ok && err == nil {
						r.Body = slices.Clone(body.([]byte))
					}
					return r, err
				}
			}
		}},
		swapped("keeps milliseconds", func(r *ledger.Record) {
			if !r.Wake.IsZero() {
				r.Wake = r.Wake.Truncate(time.Millisecond)
			}
		}),
		swapped("rounds times", func(r *ledger.Record) {
			if !r.Keep.IsZero() {
				r.Keep = r.Keep.Round(time.Microsecond)
			}
		}),
		swapped("takes the epoch for no time", func(r *ledger.Record) {
			if r.Wake.Equal(time.Unix(0, 0)) {
				r.Wake = time.Time{}
			}
		}),
		swapped("takes no time for the epoch", func(r *ledger.Record) {
			if r.Keep.IsZero() {
				r.Keep = time.Unix(0, 0)
			}
		}),
		swapped("keeps no owner", func(r *ledger.Record) { r.Owner = "" }),
		swapped("never changes the queue", func(r *ledger.Record) {
			if r.Rev > 0 && r.Queue != "" {
				r.Queue = "q"
			}
		}),
		swapped("ends bodies at a zero byte", func(r *ledger.Record) { r.Body = []byte(strings.SplitN(string(r.Body), "\x00", 2)[0]) }),
		swapped("keeps text, not bytes", func(r *ledger.Record) { r.Body = []byte(strings.ToValidUTF8(string(r.Body), "?")) }),
		each("does not look at names", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				if err := r.Check(items...); errors.Is(err, ledger.ErrInvalid) {
					return nil
				}
				return b.Store.Swap(ctx, r, items...)
			}
		}),
		each("cuts long bodies", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				if len(r.Body) > ledger.MaxBody {
					return b.Store.Swap(ctx, &ledger.Record{Key: r.Key, Rev: r.Rev})
				}
				return b.Store.Swap(ctx, r, items...)
			}
		}),
		{"does not tell names apart by case", func() func(*broken) {
			return func(b *broken) {
				b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
					c := *r
					c.Key = strings.ToLower(r.Key)
					err := b.Store.Swap(ctx, &c, items...)
					r.Rev = c.Rev
					return err
				}
				b.load = func(ctx context.Context, key string) (*ledger.Record, error) {
					r, err := b.Store.Load(ctx, strings.ToLower(key))
					if err == nil {
						r.Key = key
					}
					return r, err
				}
			}
		}},
		each("repeats a swap whose outcome is unknown", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				for {
					err := b.Store.Swap(ctx, r, items...)
					if !errors.Is(err, ledger.ErrUnknown) || ctx.Err() != nil {
						return err
					}
				}
			}
		}),
		each("does not say that an outcome is unknown", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				err := b.Store.Swap(ctx, r, items...)
				if errors.Is(err, ledger.ErrUnknown) {
					return errLost
				}
				return err
			}
		}),
		each("takes an unknown outcome for success", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				err := b.Store.Swap(ctx, r, items...)
				if errors.Is(err, ledger.ErrUnknown) {
					r.Rev++
					return nil
				}
				return err
			}
		}),
	}
}

// swapped is a variant that changes what it is to write.
func swapped(name string, change func(*ledger.Record)) variant {
	return each(name, func(b *broken) {
		b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
			c := *r
			if err := c.Check(items...); err != nil {
				return err
			}
			change(&c)
			err := b.Store.Swap(ctx, &c, items...)
			r.Rev = c.Rev
			return err
		}
	})
}
