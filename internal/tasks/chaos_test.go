package tasks_test

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// link is a server's way to the store. It fails or hangs now and then, and from some call on always: as
// far as others can see the server is dead then, though its code may run on.
type link struct {
	ledger.Store
	faults float64
	harsh  bool
	dead   atomic.Bool
	life   context.Context // ends when it is cut off: then it takes nothing more
	end    context.CancelFunc
	seen   *witness // or nil
	leaves atomic.Bool
	name   string

	mu     sync.Mutex
	rand   *rand.Rand
	frozen time.Time
	left   int // calls until it is dead; negative: it is never
}

var errCut = errors.New("cut off")

func newLink(store ledger.Store, rnd *rand.Rand, calls int, faults float64) *link {
	l := &link{Store: store, rand: rand.New(rand.NewPCG(rnd.Uint64(), 1)), left: calls, faults: faults}
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func (l *link) String() string { return l.name }

// ill reports whether the server may not have kept a lease.
func (l *link) ill() bool { return l.faults > 0 || l.dead.Load() || l.leaves.Load() }

// fault says how a call goes wrong: before it is made, or after.
func (l *link) fault() (before, after bool) {
	l.mu.Lock()
	if l.faults > 0 && l.rand.IntN(rarely(300, l.harsh)) == 0 {
		l.frozen = time.Now().Add(time.Duration(l.rand.IntN(60)) * time.Second)
	}
	frozen := time.Until(l.frozen)
	l.mu.Unlock()
	time.Sleep(frozen) // as a process that gets no time
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		last := !l.dead.Swap(true)
		if last && l.rand.IntN(2) == 0 {
			return false, true // what it wrote last is there, and it does not know
		}
		return true, false
	}
	if l.left > 0 {
		l.left--
	}
	x := l.rand.Float64()
	return x < l.faults/2, x < l.faults
}

func (l *link) call(do func() error) error {
	before, after := l.fault()
	if before {
		return errCut
	}
	err := do()
	if after && err == nil {
		return errCut
	}
	return err
}

func (l *link) Load(ctx context.Context, key string) (r *ledger.Record, err error) {
	err = l.call(func() (err error) { r, err = l.Store.Load(ctx, key); return err })
	if l.seen != nil && err != nil {
		l.seen.fault(l, key, "a read fails: %v", err)
	}
	return r, err
}

func (l *link) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	before, after := l.fault()
	if l.seen != nil && (before || after) {
		l.seen.fault(l, r.Key, "a write of revision %d fails (made: %v, dead: %v)", r.Rev+1, after && !before, l.dead.Load())
	}
	if before {
		return errCut
	}
	rev := r.Rev
	var err error
	if l.seen == nil {
		err = l.Store.Swap(ctx, r, items...)
	} else {
		err = l.seen.swap(ctx, l, r, items)
	}
	if after {
		r.Rev = rev
		return errors.Join(ledger.ErrUnknown, errCut)
	}
	return err
}

func (l *link) Items(ctx context.Context, key string, after uint64, limit int) (list []ledger.Item, err error) {
	err = l.call(func() (err error) { list, err = l.Store.Items(ctx, key, after, limit); return err })
	return list, err
}

func (l *link) Take(ctx context.Context, t ledger.Take) (list []*ledger.Record, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	err = l.call(func() (err error) {
		if list, err = l.Store.Take(ctx, t); l.seen != nil {
			l.seen.took(l, list)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (l *link) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) {
		for r, err := range l.Store.Watch(ctx, key, after) {
			if before, _ := l.fault(); before {
				yield(nil, errCut)
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (l *link) Now(ctx context.Context) (at time.Time, err error) {
	err = l.call(func() (err error) { at, err = l.Store.Now(ctx); return err })
	return at, err
}

// cut lets nothing through any more.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = 0
	l.dead.Store(true)
	l.end()
}
