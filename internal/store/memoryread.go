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
	err = m.do(ctx, func(now time.Time) error {
		taken, next = m.take(&t, now)
		return nil
	})
	return taken, next, err
}

func (m *memory) take(t *Take, now time.Time) (taken []*Record, next time.Time) {
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
		m.of(entry{group: dueGroup(t.Audience, tool.Name)}, func(e entry) bool {
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
	for _, old := range due {
		r := *old
		r.Fence++
		r.Tries++
		r.Until = now.Add(t.Lease)
		m.put(old, &r)
		sooner(r.Until)
		taken = append(taken, r.copy(now))
	}
	return taken, next
}

func (m *memory) Renew(ctx context.Context, held []Held, lease time.Duration) (lost []ID, err error) {
	err = m.do(ctx, func(now time.Time) error {
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
		return nil
	})
	return lost, err
}

func (m *memory) Log(ctx context.Context, id ID, after uint64, limit int) (l *Log, err error) {
	err = m.do(ctx, func(time.Time) error {
		r := m.rows[id]
		if r == nil {
			return ErrNotFound
		}
		items := r.after(after)
		l = &Log{Items: cloneItems(items[:max(0, min(limit, len(items)))]), Head: r.Head, Floor: r.Floor}
		return nil
	})
	return l, err
}

func (m *memory) List(ctx context.Context, f Filter, after Cursor, limit int) (list []*Record, err error) {
	err = m.do(ctx, func(now time.Time) error {
		from := entry{ownedGroup(f.Audience, f.Owner, f.Mode), after.Created.UnixMicro(), after.ID}
		if after.Created.IsZero() {
			from.at = earliest.UnixMicro()
		}
		add := func(r *row) {
			c := r.Record
			c.State, c.Summary, c.Now = nil, slices.Clone(r.Summary), now
			list = append(list, &c)
		}
		if f.Owner != (ID{}) {
			m.of(from, func(e entry) bool {
				if e != from && len(list) < limit {
					add(m.rows[e.id])
				}
				return len(list) < limit
			})
			return nil
		}
		for _, r := range m.rows {
			at := cmp.Or(cmp.Compare(r.Created.UnixMicro(), from.at), bytes.Compare(r.ID[:], from.id[:]))
			if at > 0 && r.Audience == f.Audience && slices.Contains(f.Statuses, r.Status) && (f.Mode == "" || r.Mode == f.Mode) {
				add(r)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b *Record) int {
		return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return list[:min(len(list), max(0, limit))], err
}

func (m *memory) Listen(ctx context.Context, changed func(id ID, head uint64)) error {
	if err := m.do(ctx, func(time.Time) error { return nil }); err != nil {
		return err
	}
	defer m.listeners.Add(changed)()
	changed(ID{}, 0) // earlier writes are not announced
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-m.open.Done():
		return ErrClosed
	}
}
