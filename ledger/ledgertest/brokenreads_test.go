package ledgertest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
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

func brokenWatches() []variant {
	return []variant{
		watching("does not begin with the present", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			if r, err := b.Store.Load(ctx, key); err == nil {
				after = max(after, r.Rev)
			}
			b.Store.Watch(ctx, key, after)(yield)
		}),
		watching("needs a record that there is", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			if _, err := b.Store.Load(ctx, key); err != nil {
				yield(nil, err)
				return
			}
			b.Store.Watch(ctx, key, after)(yield)
		}),
		watching("misses what happens while its caller is busy", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			for {
				next := uint64(0)
				for r, err := range b.Store.Watch(ctx, key, after) {
					if !yield(r, err) || err != nil {
						return
					}
					if now, err := b.Store.Load(ctx, key); err == nil && now.Rev > r.Rev {
						next = now.Rev
						break
					}
				}
				after = next
			}
		}),
		watching("tells everything twice", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			b.Store.Watch(ctx, key, after)(func(r *ledger.Record, err error) bool {
				return yield(r, err) && (err != nil || yield(r, nil))
			})
		}),
		watching("tells of the next revision only once", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			n := 0
			b.Store.Watch(ctx, key, after)(func(r *ledger.Record, err error) bool {
				if n++; n > 2 && err == nil {
					return true
				}
				return yield(r, err)
			})
		}),
		watching("looks every 200 ms", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			b.Store.Watch(ctx, key, after)(func(r *ledger.Record, err error) bool {
				time.Sleep(200 * time.Millisecond)
				return yield(r, err)
			})
		}),
		watching("ends without an error", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			b.Store.Watch(ctx, key, after)(func(r *ledger.Record, err error) bool { return err == nil && yield(r, err) })
		}),
		watching("does not end with its context", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
			defer cancel()
			time.AfterFunc(5*time.Second, cancel) // or this test would not end either
			b.Store.Watch(lasting, key, after)(yield)
		}),
		watching("goes on with nothing when a connection is lost", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			b.Store.Watch(ctx, key, after)(func(r *ledger.Record, err error) bool {
				if errors.Is(err, errLost) {
					<-ctx.Done()
				}
				return yield(r, err)
			})
		}),
		watching("does not see what is taken", func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			b.Store.Watch(ctx, key, after)(func(r *ledger.Record, err error) bool {
				if err == nil && time.Until(r.Wake) > 30*time.Minute {
					return true
				}
				return yield(r, err)
			})
		}),
		{"tells of changes by the same handle only", func() func(*broken) {
			return func(b *broken) {
				var mu sync.Mutex
				mine := map[string]uint64{}
				b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
					err := b.Store.Swap(ctx, r, items...)
					if err == nil {
						mu.Lock()
						mine[r.Key] = r.Rev
						mu.Unlock()
					}
					return err
				}
				b.watch = func(ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
					first := true
					b.Store.Watch(ctx, key, after)(func(r *ledger.Record, err error) bool {
						if err == nil && !first {
							mu.Lock()
							ok := mine[key] == r.Rev
							mu.Unlock()
							if !ok {
								return true
							}
						}
						first = false
						return yield(r, err)
					})
				}
			}
		}},
	}
}

func watching(name string, watch func(b *broken, ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool)) variant {
	return each(name, func(b *broken) {
		b.watch = func(ctx context.Context, key string, after uint64, yield func(*ledger.Record, error) bool) {
			watch(b, ctx, key, after, yield)
		}
	})
}

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
		kept("forgets too early", 30*time.Minute),
		kept("forgets too late", -365*24*time.Hour),
		kept("forgets a little too early", 200*time.Millisecond),
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

// kept is a variant by whose clock a record's Keep is over too early.
func kept(name string, by time.Duration) variant {
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
	})
}
