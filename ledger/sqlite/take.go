package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Take writes only if there is something to take.
func (l *database) Take(ctx context.Context, t store.Take) (taken []*store.Record, next time.Time, err error) {
	if err := t.Check(); err != nil {
		return nil, next, err
	}
	var list []due
	err = l.read(ctx, func(c *conn) error {
		list, next, err = c.due(&t, l.now())
		return err
	})
	if err != nil || len(list) == 0 {
		return nil, next, err
	}
	err = l.writer.do(ctx, &op{run: func(w *writer) error {
		taken, next, err = w.acquire(&t)
		return err
	}})
	if err != nil && err != errNothing { // another process was quicker
		return nil, next, l.explain("take from", err)
	}
	return taken, next, nil
}

// due is a record that can be taken since a time in microseconds.
type due struct{ since, n int64 }

// due returns records that can be taken, those first that have waited longest, and when there may be
// more. It reads a range of an index for each tool, and no more than the limit of each.
func (c *conn) due(t *store.Take, now time.Time) (list []due, next time.Time, err error) {
	for _, tool := range t.Tools {
		_, err := c.each(`SELECT due, n FROM records WHERE audience = ? AND tool = ? AND due IS NOT NULL AND revision <= ? AND format <= ?
			ORDER BY due LIMIT ?`, func(r *row) {
			if at := r.time(0); at.After(now) {
				next = sooner(next, at)
			} else {
				list = append(list, due{r.ColumnInt64(0), r.ColumnInt64(1)})
			}
		}, t.Audience, tool.Name, int(tool.Revision), int(t.Format), t.Limit+1)
		if err != nil {
			return nil, next, err
		}
	}
	slices.SortFunc(list, func(a, b due) int { return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.n, b.n)) })
	list = slices.Compact(list) // of a tool that was named twice
	if len(list) > t.Limit {
		list, next = list[:t.Limit], now
	}
	return list, next, nil
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func (w *writer) acquire(t *store.Take) (taken []*store.Record, next time.Time, err error) {
	now := w.ledger.now()
	list, next, err := w.due(t, now)
	if err == nil && len(list) == 0 {
		err = errNothing
	}
	for _, d := range list {
		if err == nil {
			err = w.exec("UPDATE records SET fence = fence + 1, tries = tries + 1, lease = ?1, due = max(wake, ?1) WHERE n = ?2", now.Add(t.Lease), d.n)
		}
		if err == nil {
			var r *store.Record
			r, err = w.record(now, "r.n = ?", d.n)
			taken = append(taken, r)
		}
		next = sooner(next, now.Add(t.Lease))
	}
	return taken, next, err
}

func (l *database) Renew(ctx context.Context, held []store.Held, lease time.Duration) (lost []store.ID, err error) {
	err = l.writer.do(ctx, &op{run: func(w *writer) error {
		until := l.now().Add(lease)
		for _, h := range held {
			if err := w.exec("UPDATE records SET lease = ?1, due = max(wake, ?1), tries = max(tries - ?4, 0) WHERE id = ?2 AND fence = ?3 AND lease <> 0", until, h.ID, h.Fence, h.Unread); err != nil {
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
