package ledger

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"
)

// queue has the records of a queue that have a Wake, sorted twice.
type queue struct {
	byWake, byKey *btree.BTreeG[*Record]
}

func newQueue() *queue {
	return &queue{
		byWake: btree.NewBTreeGOptions(wokenSooner, btree.Options{NoLocks: true}),
		byKey:  btree.NewBTreeGOptions(keyLess, btree.Options{NoLocks: true}),
	}
}

func keyLess(a, b *Record) bool { return a.Key < b.Key }

func wokenSooner(a, b *Record) bool {
	if c := a.Wake.Compare(b.Wake); c != 0 {
		return c < 0
	}
	return a.Key < b.Key
}

func (m *memory) enqueue(r *Record) {
	if r.Queue == "" || r.Wake.IsZero() {
		return
	}
	q, ok := m.queues.get(r.Queue)
	if !ok {
		q = newQueue()
		m.queues.set(r.Queue, q)
	}
	q.byWake.Set(r)
	q.byKey.Set(r)
	if first, _ := q.byWake.Min(); first == r {
		for t := range m.takers[r.Queue] {
			t.hurry()
		}
	}
}

func (m *memory) dequeue(r *Record) {
	if r.Queue == "" || r.Wake.IsZero() {
		return
	}
	if q, ok := m.queues.get(r.Queue); ok {
		q.byWake.Delete(r)
		q.byKey.Delete(r)
		if q.byKey.Len() == 0 {
			m.queues.delete(r.Queue)
		}
	}
}

func (m *memory) List(ctx context.Context, queues []string, after string, limit int) ([]*Record, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	var found []*Record
	for _, q := range m.named(queues) {
		n := 0
		q.byKey.Ascend(&Record{Key: after}, func(r *Record) bool {
			if r.Key != after && n < limit {
				found = append(found, r)
				n++
			}
			return n < limit
		})
	}
	m.mu.Unlock()
	return firstByKey(found, limit), nil
}

func (m *memory) Owned(ctx context.Context, owners []string, after string, limit int) ([]*Record, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	var found []*Record
	for i, owner := range owners {
		if owner == "" || slices.Contains(owners[:i], owner) {
			continue
		}
		n := 0
		m.owned.Ascend(&Record{Owner: owner, Key: after}, func(r *Record) bool {
			if r.Owner == owner && r.Key != after && n < limit {
				found = append(found, r)
				n++
			}
			return r.Owner == owner && n < limit
		})
	}
	m.mu.Unlock()
	return firstByKey(found, limit), nil
}

// firstByKey returns copies of the first records by key.
func firstByKey(found []*Record, limit int) []*Record {
	slices.SortFunc(found, func(a, b *Record) int { return strings.Compare(a.Key, b.Key) })
	found = found[:max(0, min(limit, len(found)))]
	for i, r := range found {
		found[i] = r.clone()
	}
	return found
}

// named returns those of the queues that have records.
func (m *memory) named(names []string) (list []*queue) {
	for _, name := range names {
		if q, ok := m.queues.get(name); ok && !slices.Contains(list, q) {
			list = append(list, q)
		}
	}
	return list
}

// taker waits in Take.
type taker struct{ sooner chan struct{} }

// hurry makes a taker look again. It is not lost if the taker is only about to wait.
func (t *taker) hurry() {
	select {
	case t.sooner <- struct{}{}:
	default:
	}
}

// How long a taker waits at most before it looks at the clock again. Timers do not go by a
// clock that a test moves; and the computer's may be set.
const (
	firstLook = time.Millisecond
	lastLook  = time.Second
	exactLook = time.Minute
)

func (m *memory) Take(ctx context.Context, t Take) ([]*Record, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	waiting := &taker{sooner: make(chan struct{}, 1)}
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, name := range t.Queues {
			if delete(m.takers[name], waiting); len(m.takers[name]) == 0 {
				delete(m.takers, name)
			}
		}
	}()
	look := firstLook
	if m.exact {
		look = exactLook
	}
	for {
		taken, wait, err := m.takeDue(ctx, t, waiting)
		if err != nil {
			return nil, err
		}
		if len(taken) > 0 {
			for i, r := range taken {
				taken[i] = r.clone()
			}
			return taken, nil
		}
		timer := time.NewTimer(min(wait, look))
		select {
		case <-timer.C:
			look = max(look, min(2*look, lastLook))
		case <-waiting.sooner:
		case <-ctx.Done():
		case <-m.closed:
		}
		timer.Stop()
	}
}

// takeDue takes what is due. If that is nothing, it makes the taker one of those who are
// told of new records, and says when the next one is due.
func (m *memory) takeDue(ctx context.Context, t Take, waiting *taker) (taken []*Record, wait time.Duration, err error) {
	now := m.now()
	if err := m.begin(ctx); err != nil {
		return nil, 0, err
	}
	defer m.mu.Unlock()
	due, next := pickDue(m.named(t.Queues), now, t.Limit)
	for _, old := range due {
		r := *old
		r.Rev++
		r.Wake = micro(now.Add(t.Lease))
		e, _ := m.records.get(r.Key)
		m.replace(e, &r, e.items)
		taken = append(taken, &r)
	}
	if len(taken) > 0 {
		return taken, 0, nil
	}
	for _, name := range t.Queues {
		if m.takers[name] == nil {
			m.takers[name] = map[*taker]struct{}{}
		}
		m.takers[name][waiting] = struct{}{}
	}
	wait = exactLook
	if !next.IsZero() {
		wait = max(next.Sub(now), time.Microsecond)
	}
	return nil, wait, nil
}

// pickDue finds the records that have waited longest, in order, and when the first is due
// that is not due yet.
func pickDue(queues []*queue, now time.Time, limit int) (due []*Record, next time.Time) {
	for _, q := range queues {
		n := 0
		q.byWake.Scan(func(r *Record) bool {
			if r.Wake.After(now) {
				if next.IsZero() || r.Wake.Before(next) {
					next = r.Wake
				}
				return false
			}
			due = append(due, r)
			n++
			return n < limit
		})
	}
	slices.SortFunc(due, func(a, b *Record) int { return a.Wake.Compare(b.Wake) })
	return due[:min(limit, len(due))], next
}

// bell is where those wait who watch one record.
type bell struct {
	rung    chan struct{} // closed at the next change
	waiting int
}

// ring wakes who watches the record.
func (m *memory) ring(key string) {
	if b, ok := m.watchers[key]; ok {
		close(b.rung)
		delete(m.watchers, key)
	}
	for _, f := range m.calls[key] {
		(*f)()
	}
}

// Notify implements [Notifier].
func (m *memory) Notify(key string, _ uint64, changed func()) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[key] = append(m.calls[key], &changed)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		left := slices.DeleteFunc(m.calls[key], func(f *func()) bool { return f == &changed })
		if m.calls[key] = left; len(left) == 0 {
			delete(m.calls, key)
		}
	}
}

// newer waits for a record's revision to be greater than after.
func (m *memory) newer(ctx context.Context, key string, after uint64) (*Record, error) {
	for {
		if err := m.begin(ctx); err != nil {
			return nil, err
		}
		if e, ok := m.records.get(key); ok && e.record.Rev > after {
			r := e.record
			m.mu.Unlock()
			return r, nil
		}
		b, ok := m.watchers[key]
		if !ok {
			b = &bell{rung: make(chan struct{})}
			m.watchers[key] = b
		}
		b.waiting++
		m.mu.Unlock()

		select {
		case <-b.rung:
		case <-ctx.Done():
		case <-m.closed:
		}
		m.mu.Lock()
		if b.waiting--; b.waiting == 0 && m.watchers[key] == b {
			delete(m.watchers, key)
		}
		m.mu.Unlock()
	}
}
