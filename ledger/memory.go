package ledger

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"
)

// MemoryOptions is how a store in memory works. The zero value is for use.
type MemoryOptions struct {
	// Now is the store's clock; nil is [time.Now]. A test may set one that it moves by
	// hand: what waits in Take notices within a second, and sooner when it has only begun
	// to wait.
	Now func() time.Time
}

// NewMemory makes an empty [Store] in this process's memory: for tests, and for servers whose
// sagas need not outlive them. It starts no goroutines. In a bubble of testing/synctest it
// must have been made there, and goes by the bubble's clock.
func NewMemory(o MemoryOptions) Store {
	m := &memory{
		closed: make(chan struct{}),
		keep:   sorted(func(a, b *Record) int { return a.Keep.Compare(b.Keep) }),
		owned:  sorted(func(a, b *Record) int { return strings.Compare(a.Owner, b.Owner) }),
		queued: sorted(func(a, b *Record) int { return strings.Compare(a.Queue, b.Queue) }),
		due: sorted(func(a, b *Record) int {
			return cmp.Or(strings.Compare(a.Queue, b.Queue), a.Wake.Compare(b.Wake))
		}),
		watchers: listeners{}, takers: listeners{}, now: o.Now,
	}
	if m.now == nil {
		m.now, m.exact = time.Now, true
	}
	return m
}

// memory is the store in memory. One lock guards all of it: it is held for about a
// microsecond, and never while bodies are copied or the caller's code runs.
type memory struct {
	now    func() time.Time
	exact  bool // now is the clock that timers go by
	closed chan struct{}

	mu       sync.Mutex
	ended    bool                      // closed is closed
	records  btree.Map[string, *entry] // which gives memory back, as Go's maps do not
	owners   btree.Map[string, int]    // how many records each has
	keep     *btree.BTreeG[*Record]    // those with a Keep, by that
	owned    *btree.BTreeG[*Record]    // those with an owner, by owner and key
	queued   *btree.BTreeG[*Record]    // those with a queue and a Wake, by queue and key
	due      *btree.BTreeG[*Record]    // the same, by queue and Wake
	watchers listeners                 // by key
	takers   listeners                 // by queue
}

// sorted is an empty set of records in an order, and by key where that does not tell.
func sorted(order func(a, b *Record) int) *btree.BTreeG[*Record] {
	return btree.NewBTreeGOptions(func(a, b *Record) bool {
		return cmp.Or(order(a, b), strings.Compare(a.Key, b.Key)) < 0
	}, btree.Options{NoLocks: true})
}

// entry is a record and its items. What they point to is never changed, only replaced, so
// it can be copied without the lock.
type entry struct {
	record *Record
	items  []Item // by number
}

// begin is how each method begins: nothing is done in a context that has ended.
func (m *memory) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.ended {
		m.mu.Unlock()
		return ErrClosed
	}
	return nil
}

func (m *memory) Load(ctx context.Context, key string) (*Record, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	e, ok := m.records.Get(key)
	if !ok {
		m.mu.Unlock()
		return nil, ErrNotFound
	}
	r := e.record
	m.mu.Unlock()
	return r.clone(), nil
}

func (m *memory) Swap(ctx context.Context, r *Record, items ...Item) error {
	if err := r.Check(items...); err != nil {
		return err
	}
	next := r.clone()
	next.Rev++
	next.Wake, next.Keep = micro(r.Wake), micro(r.Keep)
	added := cloneItems(items)
	slices.SortFunc(added, byNumber)

	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	e, ok := m.records.Get(r.Key)
	if !ok {
		e = &entry{record: &Record{}}
	}
	if e.record.Rev != r.Rev {
		return ErrConflict
	}
	merged, ok := merge(e.items, added)
	if !ok {
		return ErrConflict
	}
	m.replace(e, next, merged)
	r.Rev = next.Rev
	return nil
}

// replace puts a record in the place of another, which may be none, and tells who waits.
func (m *memory) replace(e *entry, next *Record, items []Item) {
	m.leave(e.record)
	e.record, e.items = next, items
	m.records.Set(next.Key, e)
	if next.Owner != "" {
		n, _ := m.owners.Get(next.Owner)
		m.owners.Set(next.Owner, n+1)
		m.owned.Set(next)
	}
	if !next.Keep.IsZero() {
		m.keep.Set(next)
	}
	m.enqueue(next)
	m.watchers.call(next.Key)
}

// leave takes a record out of all that is sorted by what it says.
func (m *memory) leave(r *Record) {
	if r.Owner != "" {
		m.owned.Delete(r)
	}
	if n, _ := m.owners.Get(r.Owner); n > 1 {
		m.owners.Set(r.Owner, n-1)
	} else if n == 1 {
		m.owners.Delete(r.Owner)
	}
	if !r.Keep.IsZero() {
		m.keep.Delete(r)
	}
	m.dequeue(r)
}

func (m *memory) Items(ctx context.Context, key string, after uint64, limit int) ([]Item, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	var items []Item
	if e, ok := m.records.Get(key); ok && after < math.MaxInt64 {
		items = e.items
	}
	m.mu.Unlock()
	from, _ := slices.BinarySearchFunc(items, Item{N: after + 1}, byNumber)
	items = items[from:]
	return cloneItems(items[:max(0, min(limit, len(items)))]), nil
}

func (m *memory) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		changed := make(chan struct{}, 1)
		defer m.Notify(key, after, func() { poke(changed) })()
		for last := after; ; {
			r, err := m.Load(ctx, key)
			switch {
			case err == nil && r.Rev > last:
				if last = r.Rev; !yield(r, nil) {
					return
				}
				continue
			case err != nil && !errors.Is(err, ErrNotFound):
				yield(nil, err)
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			case <-m.closed:
			}
		}
	}
}

func (m *memory) Count(ctx context.Context, owner string, most int) (int, error) {
	if err := m.begin(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	n, _ := m.owners.Get(owner)
	return max(0, min(n, most)), nil
}

func (m *memory) Forget(ctx context.Context, limit int) (int, error) {
	now := m.now()
	if err := m.begin(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	n := 0
	for ; n < limit; n++ {
		r, ok := m.keep.Min()
		if !ok || r.Keep.After(now) {
			break
		}
		m.leave(r)
		m.records.Delete(r.Key)
	}
	return n, nil
}

func (m *memory) Now(ctx context.Context) (time.Time, error) {
	now := m.now()
	if err := m.begin(ctx); err != nil {
		return time.Time{}, err
	}
	m.mu.Unlock()
	return micro(now), nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.ended = true
		close(m.closed)
		m.records.Clear()
		m.owners.Clear()
		for _, set := range []*btree.BTreeG[*Record]{m.keep, m.owned, m.queued, m.due} {
			set.Clear()
		}
	}
	return nil
}

// clone copies a record, and what it points to.
func (r *Record) clone() *Record {
	c := *r
	c.Body = slices.Clone(r.Body)
	return &c
}

// micro is a time as a store keeps it.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

func byNumber(a, b Item) int { return cmp.Compare(a.N, b.N) }

func cloneItems(items []Item) []Item {
	c := make([]Item, len(items))
	for i, item := range items {
		c[i] = Item{N: item.N, Body: slices.Clone(item.Body)}
	}
	return c
}

// merge puts sorted items among the others, and fails if a number occurs twice. What is
// appended shares the others' memory, as nobody else looks behind their end.
func merge(items, added []Item) ([]Item, bool) {
	for i, item := range added {
		if _, twice := slices.BinarySearchFunc(items, item, byNumber); twice || i > 0 && added[i-1].N == item.N {
			return nil, false
		}
	}
	if len(items) == 0 || len(added) == 0 || items[len(items)-1].N < added[0].N {
		return append(items, added...), true
	}
	merged := slices.Concat(items, added)
	slices.SortFunc(merged, byNumber)
	return merged, true
}
