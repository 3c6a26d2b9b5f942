package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Take implements [store.Store]. Only if there is something to take does it write.
func (l *ledger) Take(ctx context.Context, t store.Take) (taken []*store.Record, next time.Time, err error) {
	if err := t.Check(); err != nil {
		return nil, next, err
	}
	var due []int64
	err = l.read(ctx, func(c *conn) error {
		due, next, err = c.dueFor(&t, l.clock.now())
		return err
	})
	if err != nil || len(due) == 0 {
		return nil, next, l.explain("read", err)
	}
	err = l.writer.do(ctx, &op{run: func(w *writer) error {
		taken, next, err = w.acquire(&t)
		return err
	}})
	if err != nil && err != errNothing { // another process was quicker
		return nil, time.Time{}, l.explain("take from", err)
	}
	return taken, next, nil
}

// dueFor returns the rows of records that can be taken, those first that have waited longest, and when there may
// be more. It reads one range of an index for each tool, and no more than the limit of each.
func (c *conn) dueFor(t *store.Take, now time.Time) (list []int64, next time.Time, err error) {
	type waiting struct{ n, due int64 }
	var due []waiting
	for i, tool := range t.Tools {
		if slices.Contains(t.Tools[:i], tool) {
			continue
		}
		_, err := each(c.due, func() {
			if at := timeOf(c.due, 1); !at.After(now) {
				due = append(due, waiting{c.due.ColumnInt64(0), c.due.ColumnInt64(1)})
			} else {
				next = sooner(next, at)
			}
		}, t.Audience, tool.Name, int64(tool.Revision), int64(t.Format), t.Limit+1)
		if err != nil {
			return nil, next, err
		}
	}
	slices.SortFunc(due, func(a, b waiting) int { return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.n, b.n)) })
	due = slices.Compact(due) // of a tool that was named twice
	if len(due) > t.Limit {
		due, next = due[:t.Limit], now
	}
	for _, d := range due {
		list = append(list, d.n)
	}
	return list, next, nil
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// acquire takes records that are due.
func (w *writer) acquire(t *store.Take) (taken []*store.Record, next time.Time, err error) {
	now := w.now()
	due, next, err := w.dueFor(t, now)
	if err != nil {
		return nil, next, err
	}
	if len(due) == 0 {
		return nil, next, errNothing
	}
	until := now.Add(t.Lease)
	for _, n := range due {
		if err := exec(w.take, until, n); err != nil {
			return nil, next, err
		}
		r, err := w.record(w.load, n)
		if err != nil {
			return nil, next, err
		}
		r.Now = now
		taken = append(taken, r)
	}
	return taken, sooner(next, until), nil
}

// Renew implements [store.Store].
func (l *ledger) Renew(ctx context.Context, held []store.Held, lease time.Duration) (lost []store.ID, err error) {
	err = l.writer.do(ctx, &op{run: func(w *writer) error {
		until := w.now().Add(lease)
		for _, h := range held {
			if err := exec(w.renew, until, h.ID, h.Fence); err != nil {
				return err
			}
			if w.Changes() == 0 {
				lost = append(lost, h.ID)
			}
		}
		if len(lost) == len(held) {
			return errNothing
		}
		return nil
	}})
	if err != nil && err != errNothing {
		return nil, l.explain("renew leases in", err)
	}
	return lost, nil
}
