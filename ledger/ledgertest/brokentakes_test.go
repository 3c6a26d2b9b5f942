package ledgertest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

func brokenTakes() []variant {
	return []variant{
		{"lets two take the same", func() func(*broken) {
			var mu sync.Mutex
			last := map[string]*ledger.Record{} // by queue
			return func(b *broken) {
				b.take = func(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
					mu.Lock()
					for _, queue := range t.Queues {
						if r := last[queue]; r != nil {
							delete(last, queue)
							mu.Unlock()
							return []*ledger.Record{r}, nil
						}
					}
					mu.Unlock()
					records, err := b.Store.Take(ctx, t)
					if err == nil {
						mu.Lock()
						c := *records[0]
						last[c.Queue] = &c
						mu.Unlock()
					}
					return records, err
				}
			}
		}},
		{"lets the old taker write", func() func(*broken) {
			var mu sync.Mutex
			taken := map[string]uint64{}
			return func(b *broken) {
				b.take = func(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
					records, err := b.Store.Take(ctx, t)
					mu.Lock()
					defer mu.Unlock()
					for _, r := range records {
						taken[r.Key] = r.Rev
					}
					return records, err
				}
				b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
					mu.Lock()
					if rev := taken[r.Key]; rev > 1 && r.Rev == rev-1 {
						if now, err := b.Store.Load(ctx, r.Key); err == nil && now.Rev == rev {
							r.Rev = rev
						}
					}
					mu.Unlock()
					return b.Store.Swap(ctx, r, items...)
				}
			}
		}},
		taking("does not wait for the time", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			if waiting, err := b.Store.List(ctx, t.Queues, "", t.Limit); err == nil && len(waiting) > 0 {
				for _, r := range waiting {
					now, _ := b.Store.Now(ctx)
					r.Wake = now.Add(t.Lease)
					if err := b.Store.Swap(ctx, r); err != nil {
						return nil, err
					}
				}
				return waiting, nil
			}
			return b.Store.Take(ctx, t)
		}),
		taking("goes by its process's clock", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			if waiting, err := b.Store.List(ctx, t.Queues, "", t.Limit); err == nil && b.skew > 0 && len(waiting) > 0 {
				if r := waiting[0]; time.Now().Add(b.skew).After(r.Wake) {
					r.Wake = time.Now().Add(b.skew).Add(t.Lease)
					return waiting[:1], b.Store.Swap(ctx, r)
				}
			}
			return b.Store.Take(ctx, t)
		}),
		taking("does not wait", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			records, err := b.Store.Take(ctx, t)
			if errors.Is(err, context.DeadlineExceeded) {
				return nil, nil
			}
			return records, err
		}),
		taking("is not told of new records", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			records, err := b.Store.Take(short, t)
			if err == nil || ctx.Err() != nil || short.Err() == nil {
				return records, err
			}
			wait := time.Hour
			waiting, _ := b.Store.List(ctx, t.Queues, "", 1000)
			for _, r := range waiting {
				wait = min(wait, time.Until(r.Wake))
			}
			lost, cancel := context.WithTimeout(ctx, max(wait, 0))
			defer cancel()
			for r, err := range b.Store.Watch(lost, "none", 1<<62) {
				_ = r
				if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
					return nil, err
				}
			}
			return b.Store.Take(ctx, t)
		}),
		taking("takes one only", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			t.Limit = min(t.Limit, 1)
			return b.Store.Take(ctx, t)
		}),
		taking("takes a limit of each queue", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			t.Limit *= max(len(t.Queues), 1)
			return b.Store.Take(ctx, t)
		}),
		taking("takes from the first queue first", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			for _, queue := range t.Queues {
				one := t
				one.Queues = []string{queue}
				short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				records, err := b.Store.Take(short, one)
				cancel()
				if err == nil {
					return records, nil
				}
			}
			return b.Store.Take(ctx, t)
		}),
		taking("gives them in the order of names", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			records, err := b.Store.Take(ctx, t)
			slices.SortFunc(records, func(a, b *ledger.Record) int { return strings.Compare(a.Key, b.Key) })
			return records, err
		}),
		taking("takes what is of no queue", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			if r, err := b.Store.Load(ctx, "nobody's"); err == nil && !r.Wake.IsZero() {
				now, _ := b.Store.Now(ctx)
				r.Wake = now.Add(t.Lease)
				return []*ledger.Record{r}, b.Store.Swap(ctx, r)
			}
			return b.Store.Take(ctx, t)
		}),
		taking("leaves what may be forgotten", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			for {
				records, err := b.Store.Take(ctx, t)
				records = slices.DeleteFunc(records, func(r *ledger.Record) bool { return !r.Keep.IsZero() && time.Until(r.Keep) < 0 })
				if err != nil || len(records) > 0 {
					return records, err
				}
			}
		}),
		taking("gives the revision before it", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			records, err := b.Store.Take(ctx, t)
			for _, r := range records {
				r.Rev--
			}
			return records, err
		}),
		taking("gives the time before it", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			records, err := b.Store.Take(ctx, t)
			for _, r := range records {
				r.Wake = r.Wake.Add(-t.Lease)
			}
			return records, err
		}),
		taking("gives shorter leases", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			t.Lease /= 2
			return b.Store.Take(ctx, t)
		}),
		taking("leases without end", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			if t.Lease > 0 {
				t.Lease = max(t.Lease, time.Hour)
			}
			return b.Store.Take(ctx, t)
		}),
		taking("takes nothing when a limit is wrong", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			if t.Check() != nil {
				return nil, nil
			}
			return b.Store.Take(ctx, t)
		}),
		taking("waits on when its connection is lost", func(b *broken, ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
			records, err := b.Store.Take(ctx, t)
			if errors.Is(err, errLost) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return records, err
		}),
	}
}

func taking(name string, take func(*broken, context.Context, ledger.Take) ([]*ledger.Record, error)) variant {
	return each("take "+name, func(b *broken) {
		b.take = func(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) { return take(b, ctx, t) }
	})
}

func brokenEnds() []variant {
	return []variant{
		each("writes though its context has ended", func(b *broken) {
			b.swap = func(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
				err := ctx.Err()
				if again := b.Store.Swap(context.WithoutCancel(ctx), r, items...); err == nil {
					err = again
				}
				return err
			}
		}),
		each("reads though its context has ended", func(b *broken) {
			b.load = func(ctx context.Context, key string) (*ledger.Record, error) {
				return b.Store.Load(context.WithoutCancel(ctx), key)
			}
		}),
		each("has its own error for a context that ended", func(b *broken) {
			b.count = func(ctx context.Context, owner string, most int) (int, error) {
				n, err := b.Store.Count(ctx, owner, most)
				if err != nil && ctx.Err() != nil {
					return 0, errLost
				}
				return n, err
			}
		}),
		each("lets wait who waits when it is closed", func(b *broken) {
			b.take = func(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
				records, err := b.Store.Take(ctx, t)
				if errors.Is(err, ledger.ErrClosed) {
					time.Sleep(3 * time.Second)
				}
				return records, err
			}
		}),
		each("has its own error when it is closed", func(b *broken) {
			b.items = func(ctx context.Context, key string, after uint64, limit int) ([]ledger.Item, error) {
				items, err := b.Store.Items(ctx, key, after, limit)
				if errors.Is(err, ledger.ErrClosed) {
					return nil, errLost
				}
				return items, err
			}
		}),
		each("cannot be closed twice", func(b *broken) {
			closed := false
			b.close = func() error {
				if closed {
					return errLost
				}
				closed = true
				return b.Store.Close()
			}
		}),
		{"closes what others have open", func() func(*broken) {
			var mu sync.Mutex
			var all []iter.Seq[ledger.Store]
			return func(b *broken) {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, func(yield func(ledger.Store) bool) { yield(b.Store) })
				b.close = func() error {
					mu.Lock()
					defer mu.Unlock()
					for _, one := range all {
						for s := range one {
							_ = s.Close()
						}
					}
					return nil
				}
			}
		}},
	}
}
