package ledger

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"
)

func (m *memory) enqueue(r *Record) {
	if r.Queue == "" || r.Wake.IsZero() {
		return
	}
	m.queued.Set(r)
	m.due.Set(r)
	m.due.Ascend(&Record{Queue: r.Queue}, func(first *Record) bool {
		if first == r {
			m.takers.call(r.Queue)
		}
		return false
	})
}

func (m *memory) dequeue(r *Record) {
	if r.Queue != "" && !r.Wake.IsZero() {
		m.queued.Delete(r)
		m.due.Delete(r)
	}
}

func (m *memory) List(ctx context.Context, queues []string, after string, limit int) ([]*Record, error) {
	return m.named(ctx, queues, m.queued, func(r *Record) *string { return &r.Queue }, after, limit)
}

func (m *memory) Owned(ctx context.Context, owners []string, after string, limit int) ([]*Record, error) {
	return m.named(ctx, owners, m.owned, func(r *Record) *string { return &r.Owner }, after, limit)
}

// named returns the first records by key, after one, that have one of the names. They are sorted
// by it.
func (m *memory) named(ctx context.Context, names []string, set *btree.BTreeG[*Record], name func(*Record) *string, after string, limit int) ([]*Record, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	var found []*Record
	for i, wanted := range names {
		if slices.Contains(names[:i], wanted) {
			continue
		}
		from, n := &Record{Key: after}, 0
		*name(from) = wanted
		set.Ascend(from, func(r *Record) bool {
			if *name(r) == wanted && r.Key != after && n < limit {
				found = append(found, r)
				n++
			}
			return *name(r) == wanted && n < limit
		})
	}
	m.mu.Unlock()
	slices.SortFunc(found, func(a, b *Record) int { return strings.Compare(a.Key, b.Key) })
	found = found[:max(0, min(limit, len(found)))]
	for i, r := range found {
		found[i] = r.clone()
	}
	return found, nil
}

// listeners are to be called when something changes, by its name. What they do is over at once.
type listeners map[string][]*func()

func (l listeners) add(name string, f *func()) {
	if !slices.Contains(l[name], f) {
		l[name] = append(l[name], f)
	}
}

func (l listeners) remove(name string, f *func()) {
	l[name] = slices.DeleteFunc(l[name], func(other *func()) bool { return other == f })
	if len(l[name]) == 0 {
		delete(l, name)
	}
}

func (l listeners) call(name string) {
	for _, f := range l[name] {
		(*f)()
	}
}

// poke leaves something in a channel that holds one thing, for who waits or is only about to.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
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
	sooner := make(chan struct{}, 1)
	hurry := func() { poke(sooner) }
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, name := range t.Queues {
			m.takers.remove(name, &hurry)
		}
	}()
	look := firstLook
	if m.exact {
		look = exactLook
	}
	for {
		taken, wait, err := m.takeDue(ctx, t, &hurry)
		if err != nil {
			return nil, err
		}
		if len(taken) > 0 {
			for i, r := range taken {
				taken[i] = r.clone()
			}
			return taken, nil
		}
		select {
		case <-time.After(min(wait, look)):
			look = max(look, min(2*look, lastLook))
		case <-sooner:
		case <-ctx.Done():
		case <-m.closed:
		}
	}
}

// takeDue takes what is due. If that is nothing, it makes the taker one of those who are
// told of new records, and says when the next one is due.
func (m *memory) takeDue(ctx context.Context, t Take, hurry *func()) (taken []*Record, wait time.Duration, err error) {
	now := m.now()
	if err := m.begin(ctx); err != nil {
		return nil, 0, err
	}
	defer m.mu.Unlock()
	due, next := m.pickDue(t, now)
	for _, old := range due {
		r := *old
		r.Rev++
		r.Wake = micro(now.Add(t.Lease))
		e, _ := m.records.Get(r.Key)
		m.replace(e, &r, e.items)
		taken = append(taken, &r)
	}
	if len(taken) > 0 {
		return taken, 0, nil
	}
	for _, name := range t.Queues {
		m.takers.add(name, hurry)
	}
	wait = exactLook
	if !next.IsZero() {
		wait = max(next.Sub(now), time.Microsecond)
	}
	return nil, wait, nil
}

// pickDue finds the records that have waited longest, in order, and when the first is due
// that is not due yet.
func (m *memory) pickDue(t Take, now time.Time) (due []*Record, next time.Time) {
	for i, name := range t.Queues {
		if slices.Contains(t.Queues[:i], name) {
			continue
		}
		n := 0
		m.due.Ascend(&Record{Queue: name}, func(r *Record) bool {
			switch {
			case r.Queue != name:
				return false
			case r.Wake.After(now):
				if next.IsZero() || r.Wake.Before(next) {
					next = r.Wake
				}
				return false
			}
			due = append(due, r)
			n++
			return n < t.Limit
		})
	}
	slices.SortFunc(due, func(a, b *Record) int { return a.Wake.Compare(b.Wake) })
	return due[:min(t.Limit, len(due))], next
}

// Notify implements [Notifier].
func (m *memory) Notify(key string, _ uint64, changed func()) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers.add(key, &changed)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers.remove(key, &changed)
	}
}
