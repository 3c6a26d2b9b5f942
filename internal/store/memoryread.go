package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"
)

func (m *memory) Take(ctx context.Context, t Take) (taken []*Record, next time.Time, err error) {
	if err := t.Check(); err != nil {
		return nil, next, err
	}
	now, err := m.begin(ctx)
	if err != nil {
		return nil, next, err
	}
	var due []*row
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for i, tool := range t.Tools {
		if slices.Contains(t.Tools[:i], tool) {
			continue
		}
		n := 0
		m.due.of(entry{group: dueGroup(t.Audience, tool.Name)}, func(e entry) bool {
			r := m.rows[e.id]
			switch {
			case r.Wake.After(now):
				sooner(r.Wake)
				return false
			case r.Revision > tool.Revision || r.Format > t.Format:
			case r.Until.After(now):
				sooner(r.Until)
			default:
				due = append(due, r)
				n++
			}
			return n <= t.Limit
		})
	}
	slices.SortStableFunc(due, func(a, b *row) int { return a.Wake.Compare(b.Wake) })
	if len(due) > t.Limit {
		due, next = due[:t.Limit], now
	}
	for i, old := range due {
		r := *old
		r.Fence++
		r.Tries++
		r.Until = now.Add(t.Lease)
		m.put(old, &r)
		sooner(r.Until)
		due[i] = &r
	}
	m.mu.Unlock()
	for _, r := range due {
		taken = append(taken, r.copy(now))
	}
	return taken, next, nil
}

func (m *memory) Renew(ctx context.Context, held []Held, lease time.Duration) (lost []ID, err error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, h := range held {
		old := m.rows[h.ID]
		if old == nil || old.Fence != h.Fence || old.Until.IsZero() {
			lost = append(lost, h.ID)
			continue
		}
		r := *old
		r.Until = now.Add(lease)
		if h.Unread {
			r.Tries = max(0, r.Tries-1)
		}
		m.put(old, &r)
	}
	return lost, nil
}

func (m *memory) Log(ctx context.Context, id ID, after uint64, limit int) (*Log, error) {
	if _, err := m.begin(ctx); err != nil {
		return nil, err
	}
	r := m.rows[id]
	m.mu.Unlock()
	if r == nil {
		return nil, ErrNotFound
	}
	items := r.after(after)
	return &Log{Items: cloneItems(items[:max(0, min(limit, len(items)))]), Head: r.Head, Floor: r.Floor, Status: r.Status}, nil
}

func (m *memory) List(ctx context.Context, f Filter, after Cursor, limit int) ([]*Record, error) {
	now, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	var found []*row
	collect := func(in index, group string) {
		n := 0
		from := entry{group, after.Created.UnixMicro(), after.ID}
		if after.Created.IsZero() {
			from.at = earliest.UnixMicro()
		}
		in.of(from, func(e entry) bool {
			if e != from && n < limit {
				found = append(found, m.rows[e.id])
				n++
			}
			return n < limit
		})
	}
	switch {
	case f.Owner != (ID{}):
		collect(m.owned, ownedGroup(f.Audience, f.Owner, f.Mode))
	default:
		for i, s := range f.Statuses {
			if !slices.Contains(f.Statuses[:i], s) {
				collect(m.statuses, statusGroup(f.Audience, s))
			}
		}
	}
	m.mu.Unlock()
	slices.SortFunc(found, func(a, b *row) int {
		return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.ID[:], b.ID[:]))
	})
	list := make([]*Record, 0, min(len(found), max(0, limit)))
	for _, r := range found[:cap(list)] {
		c := r.Record
		c.State, c.Summary, c.Now = nil, slices.Clone(r.Summary), now
		list = append(list, &c)
	}
	return list, nil
}

func (m *memory) Listen(ctx context.Context, changed func(id ID, head uint64)) error {
	if _, err := m.begin(ctx); err != nil {
		return err
	}
	m.mu.Unlock()
	l := &listener{changed}
	m.listening.Lock()
	m.listeners[l] = true
	m.listening.Unlock()
	defer func() {
		m.listening.Lock()
		defer m.listening.Unlock()
		delete(m.listeners, l)
	}()
	changed(ID{}, 0) // earlier writes are not announced
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-m.closed:
		return ErrClosed
	}
}

// tell calls those who listen.
func (m *memory) tell(id ID, head uint64) {
	m.listening.Lock()
	defer m.listening.Unlock()
	for l := range m.listeners {
		l.changed(id, head)
	}
}
