package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// network is a store that is reached over connections, which break: what a database is to
// the suite, without one. Its handles are remotes.
type network struct {
	data ledger.Store

	mu    sync.Mutex
	alive context.Context // until connections break
	cut   context.CancelFunc
}

func newNetwork(data ledger.Store) *network {
	n := &network{data: data}
	n.alive, n.cut = context.WithCancel(context.Background())
	return n
}

func (n *network) disconnect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut()
	n.alive, n.cut = context.WithCancel(context.Background())
}

func (n *network) open() ledger.Store {
	r := &remote{net: n}
	r.open, r.close = context.WithCancel(context.Background())
	return r
}

var errLost = errors.New("the connection was lost")

// remote is a handle. It is right: the suite finds nothing wrong with it.
type remote struct {
	net   *network
	open  context.Context
	close context.CancelFunc
}

// connect returns a context that ends with the caller's, the connection and the handle.
func (r *remote) connect(ctx context.Context) (context.Context, func()) {
	r.net.mu.Lock()
	alive := r.net.alive
	r.net.mu.Unlock()
	ctx, end := context.WithCancelCause(ctx)
	stopAlive := context.AfterFunc(alive, func() { end(errLost) })
	stopOpen := context.AfterFunc(r.open, func() { end(ledger.ErrClosed) })
	if r.open.Err() != nil {
		end(ledger.ErrClosed)
	}
	return ctx, func() {
		stopAlive()
		stopOpen()
		end(nil)
	}
}

// call does what only reads, or takes.
func (r *remote) call(ctx context.Context, do func(context.Context) error) error {
	ctx, end := r.connect(ctx)
	defer end()
	err := do(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (r *remote) Swap(ctx context.Context, rec *ledger.Record, items ...ledger.Item) error {
	ctx, end := r.connect(ctx)
	defer end()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done := make(chan error, 1)
	mine, mineItems := *rec, append([]ledger.Item(nil), items...)
	mine.Body = append([]byte(nil), rec.Body...)
	work := func() { // on its way nothing stops it
		if rand.IntN(4) == 0 {
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
		}
		err := r.net.data.Swap(context.WithoutCancel(ctx), &mine, mineItems...)
		if rand.IntN(4) == 0 {
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
		}
		done <- err
	}
	if rec.Check(items...) != nil {
		return rec.Check(items...)
	}
	go work()
	select {
	case err := <-done:
		if err == nil {
			rec.Rev = mine.Rev
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ledger.ErrUnknown, context.Cause(ctx))
	}
}

func (r *remote) Load(ctx context.Context, key string) (rec *ledger.Record, err error) {
	err = r.call(ctx, func(ctx context.Context) (err error) { rec, err = r.net.data.Load(ctx, key); return err })
	return rec, err
}

func (r *remote) Items(ctx context.Context, key string, after uint64, limit int) (items []ledger.Item, err error) {
	err = r.call(ctx, func(ctx context.Context) (err error) {
		items, err = r.net.data.Items(ctx, key, after, limit)
		return err
	})
	return items, err
}

func (r *remote) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) {
		ctx, end := r.connect(ctx)
		defer end()
		for rec, err := range r.net.data.Watch(ctx, key, after) {
			if err != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (r *remote) Take(ctx context.Context, t ledger.Take) (records []*ledger.Record, err error) {
	err = r.call(ctx, func(ctx context.Context) (err error) { records, err = r.net.data.Take(ctx, t); return err })
	if err != nil {
		return nil, err
	}
	return records, nil
}

func (r *remote) List(ctx context.Context, queues []string, after string, limit int) (records []*ledger.Record, err error) {
	err = r.call(ctx, func(ctx context.Context) (err error) {
		records, err = r.net.data.List(ctx, queues, after, limit)
		return err
	})
	return records, err
}

func (r *remote) Owned(ctx context.Context, owners []string, after string, limit int) (records []*ledger.Record, err error) {
	err = r.call(ctx, func(ctx context.Context) (err error) {
		records, err = r.net.data.Owned(ctx, owners, after, limit)
		return err
	})
	return records, err
}

func (r *remote) Count(ctx context.Context, owner string, most int) (n int, err error) {
	err = r.call(ctx, func(ctx context.Context) (err error) { n, err = r.net.data.Count(ctx, owner, most); return err })
	return n, err
}

func (r *remote) Forget(ctx context.Context, limit int) (n int, err error) {
	err = r.call(ctx, func(ctx context.Context) (err error) { n, err = r.net.data.Forget(ctx, limit); return err })
	return n, err
}

func (r *remote) Now(ctx context.Context) (now time.Time, err error) {
	err = r.call(ctx, func(ctx context.Context) (err error) { now, err = r.net.data.Now(ctx); return err })
	return now, err
}

func (r *remote) Close() error {
	r.close()
	return nil
}

// movedByHand is a clock.
type movedByHand struct{ offset atomic.Int64 }

func (c *movedByHand) now() time.Time {
	return time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC).Add(time.Duration(c.offset.Load()))
}

// overNetwork is the harness of a store in memory that is reached over a network. Wrap is
// put around each handle, with the skew of its process's clock.
func overNetwork(t testing.TB, clock *movedByHand, wrap func(s ledger.Store, skew time.Duration) ledger.Store) Harness {
	options := ledger.MemoryOptions{}
	if clock != nil {
		options.Now = clock.now
	}
	data := ledger.NewMemory(options)
	t.Cleanup(func() { _ = data.Close() })
	net := newNetwork(data)
	skewed := func(skew time.Duration) ledger.Store { return wrap(net.open(), skew) }
	h := Harness{Open: func() ledger.Store { return skewed(0) }, Disconnect: net.disconnect, OpenSkewed: skewed}
	if clock != nil {
		h.Advance = func(d time.Duration) { clock.offset.Add(int64(d)) }
	}
	return h
}

// unbroken is a handle as the broken ones are, with no mistake: nothing is found.
func unbroken(s ledger.Store, skew time.Duration) ledger.Store { return breakable(s, skew) }

func TestOverANetwork(t *testing.T) {
	Run(t, func(t testing.TB) Harness { return overNetwork(t, nil, unbroken) })
}

func TestOverANetworkWithAClock(t *testing.T) {
	Run(t, func(t testing.TB) Harness { return overNetwork(t, &movedByHand{}, unbroken) })
}
