package sqlite

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// row is what has to be known of a record that is changed.
type row struct {
	n                  int64 // 0 if there is none
	fence, head, floor uint64
	lease              int64
	wake, keep         time.Time
	created            time.Time
	status             store.Status
	request            store.ID
}

// rowOf reads the row of a record.
func (w *writer) rowOf(id store.ID) (old row, err error) {
	s := w.row
	_, err = each(s, func() {
		old = row{
			n: s.ColumnInt64(0), fence: uint64(s.ColumnInt64(1)), head: uint64(s.ColumnInt64(2)), floor: uint64(s.ColumnInt64(3)), lease: s.ColumnInt64(4),
			wake: timeOf(s, 5), keep: timeOf(s, 6), created: timeOf(s, 7), status: store.Status(s.ColumnText(8)), request: idOf(s, 9),
		}
	}, id)
	return old, err
}

// Write implements [store.Store].
func (l *ledger) Write(ctx context.Context, r *store.Record, c store.Change) error {
	if err := r.Check(c); err != nil {
		return err
	}
	next := *r
	o := &op{id: r.ID, bytes: len(r.State) + len(r.Summary)}
	for i := range c.Items {
		o.bytes += len(c.Items[i].Body)
	}
	o.run = func(w *writer) error {
		err := w.write(&next, c)
		o.head = next.Head
		return err
	}
	if err := l.writer.do(ctx, o); err != nil {
		return l.explain("write", err)
	}
	r.Head, r.Until, r.Created, r.Updated, r.Now, r.Tries, r.Unread = next.Head, next.Until, next.Created, next.Updated, next.Now, 0, nil
	return nil
}

// write writes a record, which becomes as it is to be returned.
func (w *writer) write(r *store.Record, c store.Change) error {
	old, err := w.rowOf(r.ID)
	if err != nil {
		return err
	}
	now := w.now()
	if r.Head != old.head || old.n != 0 && r.Fence != old.fence && (r.Fence != old.fence+1 || old.lease > now.UnixMicro()) {
		return store.ErrConflict
	}
	if r.Request != (store.ID{}) && r.Request != old.request {
		if taken, err := each(w.requested, func() {}, r.Request); err != nil {
			return err
		} else if taken > 0 {
			return store.ErrConflict
		}
	}
	if old.n == 0 && c.Most > 0 {
		count := 0
		_, err := each(w.account, func() { count = w.account.ColumnInt(0) }, r.Audience, r.Account, string(r.Mode), c.Most)
		if err != nil {
			return err
		}
		if count >= c.Most {
			return store.ErrFull
		}
	}
	r.Head += uint64(len(c.Items))
	r.Created, r.Updated, r.Now, r.Until = old.created, now, now, time.Time{}
	lease := int64(0)
	if c.Lease > 0 {
		r.Until = now.Add(c.Lease)
		lease = r.Until.UnixMicro()
	}
	if old.n == 0 {
		r.Created = now
		err = w.insert(r, lease)
		old.n = w.LastInsertRowID()
	} else {
		err = w.replace(r, lease, old)
	}
	if err != nil {
		return err
	}
	return w.append(old, c.Items, now)
}

// insert makes a record.
func (w *writer) insert(r *store.Record, lease int64) error {
	err := exec(w.create, r.ID, r.Audience, r.Owner, r.Account, r.Request, r.Tool, int64(r.Revision), int64(r.Format), string(r.Mode), string(r.Status),
		r.Fence, r.Head, lease, r.Wake, r.Keep, r.Created, r.Summary)
	if err != nil || len(r.State) == 0 {
		return err
	}
	return exec(w.state, w.LastInsertRowID(), r.State)
}

// replace writes a record in the place of another.
func (w *writer) replace(r *store.Record, lease int64, old row) error {
	floor := max(old.floor, min(r.Floor, old.head)) // what is appended stays
	if floor > old.floor {
		if err := exec(w.trim, old.n, old.floor, floor); err != nil {
			return err
		}
	}
	changes := 0
	for bit, changed := range []bool{r.Status != old.status, r.Request != old.request, !store.Micro(r.Keep).Equal(old.keep)} {
		if changed {
			changes |= 1 << bit
		}
	}
	args := []any{old.n, r.Tool, int64(r.Revision), int64(r.Format), r.Fence, r.Head, floor, lease, r.Wake, r.Updated, r.Summary,
		string(r.Status), r.Request, r.Keep}
	update := w.update[changes]
	if err := exec(update, args[:update.BindParamCount()]...); err != nil {
		return err
	}
	if len(r.State) == 0 {
		return exec(w.stateless, old.n)
	}
	return exec(w.state, old.n, r.State)
}

// append appends items to the log of a record.
func (w *writer) append(to row, items []store.Item, now time.Time) error {
	for i := range items {
		item := &items[i]
		if err := exec(w.add, to.n, to.head+uint64(i)+1, item.Kind, item.Lasting, now, item.Body); err != nil {
			return err
		}
	}
	return nil
}

// Signal implements [store.Store].
func (l *ledger) Signal(ctx context.Context, id store.ID, head uint64, items ...store.Item) error {
	if err := store.CheckItems(items); err != nil {
		return err
	}
	o := &op{id: id, head: head + uint64(len(items))}
	o.run = func(w *writer) error {
		old, err := w.rowOf(id)
		switch {
		case err != nil:
			return err
		case old.n == 0 || old.status.Over():
			return store.ErrNotFound
		case old.head != head:
			return store.ErrConflict
		}
		now := w.now()
		if old.wake.IsZero() || old.wake.After(now) {
			old.wake = now
		}
		if err := exec(w.signal, old.n, o.head, old.wake); err != nil {
			return err
		}
		return w.append(old, items, now)
	}
	return l.explain("signal", l.writer.do(ctx, o))
}
