package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/btree"
)

// NewMemory makes an empty [Store] in this process's memory: for tests, and for servers whose sagas
// need not outlive them. now is its clock; nil is [time.Now]. It starts no goroutines.
func NewMemory(now func() time.Time) Store {
	if now == nil {
		now = time.Now
	}
	m := &memory{now: now, rows: map[ID]*row{}, requests: map[ID]ID{}, counts: map[account]int{}}
	m.index = btree.NewBTreeGOptions(func(a, b entry) bool {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.at, b.at), bytes.Compare(a.id[:], b.id[:])) < 0
	}, btree.Options{NoLocks: true})
	rand.Read(m.identity[:]) // never fails
	m.open, m.close = context.WithCancel(context.Background())
	return m
}

// memory is the store in memory. One lock guards all of it. It is never held while a caller's code runs.
type memory struct {
	now      func() time.Time
	identity ID
	open     context.Context // ends when the store is closed
	close    context.CancelFunc

	mu       sync.Mutex
	rows     map[ID]*row
	requests map[ID]ID
	counts   map[account]int // of records that are not over
	// index is sorted by a group and a time: audience and tool by Wake; audience, owner and mode by Created. What is
	// asked by anything else is looked for among all.
	index *btree.BTreeG[entry]

	listeners Listeners
}

// account is what [Change.Most] counts.
type account struct {
	audience string
	id       ID
	mode     Mode
}

// row is a record and its log. Both are replaced and never changed, so they can be copied without
// the lock.
type row struct {
	Record
	applied uint64 // Head when it was last written
	items   []Item
}

// entry is the place of a record in the index.
type entry struct {
	group string
	at    int64
	id    ID
}

// entries are those of a record.
func (r *row) entries() (list []entry) {
	if !r.Wake.IsZero() {
		list = append(list, entry{dueGroup(r.Audience, r.Tool), r.Wake.UnixMicro(), r.ID})
	}
	if r.Owner != (ID{}) {
		list = append(list, entry{ownedGroup(r.Audience, r.Owner, r.Mode), r.Created.UnixMicro(), r.ID})
	}
	return list
}

func dueGroup(audience, tool string) string { return audience + "\x00due\x00" + tool }
func ownedGroup(audience string, owner ID, mode Mode) string {
	return audience + "\x00owned\x00" + string(owner[:]) + string(mode)
}

// of calls each with the entries of a group from one on, until that returns false.
func (m *memory) of(from entry, each func(entry) bool) {
	m.index.Ascend(from, func(e entry) bool { return e.group == from.group && each(e) })
}

// do does something with the store locked, unless the context has ended.
func (m *memory) do(ctx context.Context, something func(now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := Micro(m.now())
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open.Err() != nil {
		return ErrClosed
	}
	return something(now)
}

// put puts a record in the place of another, which may be nil. Both may not be nil.
func (m *memory) put(old, next *row) {
	if old != nil {
		for _, e := range old.entries() {
			m.index.Delete(e)
		}
		delete(m.requests, old.Request)
		if a := (account{old.Audience, old.Account, old.Mode}); !old.Status.Over() {
			if m.counts[a]--; m.counts[a] == 0 {
				delete(m.counts, a)
			}
		}
		delete(m.rows, old.ID)
	}
	if next == nil {
		return
	}
	for _, e := range next.entries() {
		m.index.Set(e)
	}
	if next.Request != (ID{}) {
		m.requests[next.Request] = next.ID
	}
	if !next.Status.Over() {
		m.counts[account{next.Audience, next.Account, next.Mode}]++
	}
	m.rows[next.ID] = next
}

func (m *memory) Write(ctx context.Context, r *Record, c Change) error {
	if err := r.Check(c); err != nil {
		return err
	}
	next := &row{Record: *r}
	next.State, next.Summary = slices.Clone(r.State), slices.Clone(r.Summary)
	next.Wake, next.Keep = Micro(r.Wake), Micro(r.Keep)
	if err := m.do(ctx, func(now time.Time) error { return m.write(next, c, now) }); err != nil {
		return err
	}
	r.Head, r.Until, r.Created, r.Updated, r.Now, r.Tries, r.Unread = next.Head, next.Until, next.Created, next.Updated, next.Updated, 0, nil
	m.listeners.Tell(r.ID, r.Head)
	return nil
}

// write is Write with the lock held.
func (m *memory) write(next *row, c Change, now time.Time) error {
	old := m.rows[next.ID]
	if other, taken := m.requests[next.Request]; taken && other != next.ID {
		return ErrConflict
	}
	if next.Head == 0 {
		if old != nil {
			return ErrConflict
		}
		next.Created, next.Floor = now, 0
	} else {
		if old == nil || old.Head != next.Head || old.Tries != next.Tries || !old.writableWith(next.Fence, now) {
			return ErrConflict
		}
		next.Audience, next.Owner, next.Account, next.Created = old.Audience, old.Owner, old.Account, old.Created
		next.Floor, next.items = max(old.Floor, min(next.Floor, old.Head)), old.items
		if next.Floor > old.Floor {
			next.items = slices.DeleteFunc(slices.Clone(old.items), func(i Item) bool { return i.N <= next.Floor && !i.Lasting })
		}
	}
	if c.Most > 0 && (old == nil || next.Mode != old.Mode) && m.counts[account{next.Audience, next.Account, next.Mode}] >= c.Most {
		return ErrFull
	}
	next.append(c.Items, now)
	next.applied = next.Head
	next.Until, next.Updated, next.Tries, next.Unread = time.Time{}, now, 0, nil
	if c.Lease > 0 {
		next.Until = now.Add(c.Lease)
	}
	m.put(old, next)
	return nil
}

// writableWith reports whether who writes with that fence may.
func (r *row) writableWith(fence uint64, now time.Time) bool {
	return fence == r.Fence || fence == r.Fence+1 && !r.Until.After(now)
}

// append appends items. The memory behind the end of those that there are is not shared: all
// writes come one after the other.
func (r *row) append(items []Item, now time.Time) {
	for _, i := range cloneItems(items) {
		r.Head++
		i.N, i.At = r.Head, now
		r.items = append(r.items, i)
	}
}

func (m *memory) Signal(ctx context.Context, id ID, head uint64, items ...Item) error {
	if err := CheckItems(items); err != nil {
		return err
	}
	err := m.do(ctx, func(now time.Time) error {
		old := m.rows[id]
		switch {
		case old == nil || old.Status.Over():
			return ErrNotFound
		case old.Head != head:
			return ErrConflict
		}
		next := *old
		next.append(items, now)
		if next.Wake.IsZero() || next.Wake.After(now) {
			next.Wake = now
		}
		m.put(old, &next)
		return nil
	})
	if err == nil {
		m.listeners.Tell(id, head+uint64(len(items)))
	}
	return err
}

func (m *memory) Load(ctx context.Context, id ID) (*Record, error) {
	return m.load(ctx, func() ID { return id })
}

func (m *memory) Find(ctx context.Context, request ID) (*Record, error) {
	return m.load(ctx, func() ID { return m.requests[request] })
}

func (m *memory) load(ctx context.Context, id func() ID) (found *Record, err error) {
	err = m.do(ctx, func(now time.Time) error {
		r := m.rows[id()]
		if r == nil {
			return ErrNotFound
		}
		found = r.copy(now)
		return nil
	})
	return found, err
}

func (r *row) copy(now time.Time) *Record {
	c := r.Record
	c.State, c.Summary = slices.Clone(r.State), slices.Clone(r.Summary)
	c.Unread, c.Now = cloneItems(r.after(r.applied)), now
	return &c
}

func (r *row) after(n uint64) []Item {
	from, found := slices.BinarySearchFunc(r.items, n, func(i Item, n uint64) int { return cmp.Compare(i.N, n) })
	if found {
		from++
	}
	return r.items[from:]
}

func cloneItems(items []Item) []Item {
	if len(items) == 0 {
		return nil
	}
	c := slices.Clone(items)
	for i := range c {
		c[i].Body = slices.Clone(c[i].Body)
	}
	return c
}

func (m *memory) Forget(ctx context.Context, limit int) (n int, err error) {
	err = m.do(ctx, func(now time.Time) error {
		for _, r := range m.rows {
			if n < limit && !r.Keep.IsZero() && !r.Keep.After(now) {
				m.put(r, nil)
				n++
			}
		}
		return nil
	})
	return n, err
}

func (m *memory) Identity(ctx context.Context) (ID, error) {
	return m.identity, m.do(ctx, func(time.Time) error { return nil })
}

func (m *memory) Check(ctx context.Context) (at time.Time, err error) {
	err = m.do(ctx, func(now time.Time) error { at = now; return nil })
	return at, err
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.close()
	m.rows, m.requests, m.counts, m.index = nil, nil, nil, nil
	return nil
}
