package durable_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
)

// link is a server's way to the store. It fails or hangs now and then, and from some call on always: as
// far as others can see the server is dead then, though its code may run on.
type link struct {
	storetest.Intercept
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

func newLink(s store.Store, rnd *rand.Rand, calls int, faults float64) *link {
	l := &link{rand: rand.New(rand.NewPCG(rnd.Uint64(), 1)), left: calls, faults: faults}
	l.Store, l.Around = s, l.around
	l.life, l.end = context.WithCancel(context.Background())
	return l
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// rarely is in how many times something happens that happens once in n times, or more often in a
// harsh world.
func rarely(n int, harsh bool) int {
	if harsh {
		return n/3 + 1
	}
	return n
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

func (l *link) around(_ context.Context, c storetest.Call, next func() error) error {
	before, after := false, false
	if c.Method != "Listen" {
		before, after = l.fault()
	}
	if l.seen != nil && (before || after) {
		l.seen.fault(l, c, fmt.Sprintf("fails (made: %v, dead: %v)", after && !before, l.dead.Load()))
	}
	switch {
	case before && c.Writes() && l.tells():
		return errors.Join(store.ErrUnknown, errCut) // though it was not made
	case before, c.Method == "Take" && l.life.Err() != nil:
		return errCut
	}
	var err error
	if l.seen != nil {
		err = l.seen.call(l, c, next)
	} else {
		err = next()
	}
	switch {
	case !after || err != nil:
		return err
	case c.Writes():
		return errors.Join(store.ErrUnknown, errCut)
	}
	return errCut
}

// tells reports whether a write that was not made says that it may have been.
func (l *link) tells() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left != 0 && l.rand.IntN(2) == 0
}

// Listen implements [store.Store]: what is cut off hears nothing, and now and then nobody is told.
func (l *link) Listen(ctx context.Context, changed func(store.ID, uint64)) error {
	return l.Store.Listen(ctx, func(id store.ID, head uint64) {
		l.mu.Lock()
		missed := l.left == 0 || l.rand.Float64() < l.faults
		l.mu.Unlock()
		if !missed {
			changed(id, head)
		}
	})
}

// cut lets nothing through any more.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = 0
	l.dead.Store(true)
	l.end()
}
