package ledgertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

func brokenWatches() []variant {
	return []variant{
		each("promises to tell of changes and does not", func(b *broken) {
			b.notify = func(string, uint64, func()) func() { return func() {} }
		}),
		each("tells of changes all the time", func(b *broken) {
			b.notify = func(_ string, _ uint64, changed func()) func() {
				over := time.After(5 * time.Second)
				go func() {
					for {
						select {
						case <-over:
							return
						case <-time.After(time.Millisecond):
							changed()
						}
					}
				}()
				return func() {}
			}
		}),
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
